#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/checkpoint/checkpoint.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"
#include "scheduler/text/tokenizer.h"
#include "tools/command.h"

namespace octavo::tools {
namespace {

struct TokenizeOptions {
  std::string model;
  bool json = false;
  bool parse_special = false;
};

absl::StatusOr<std::vector<TokenId>> Tokenize(const TokenizeOptions& options,
                                              const std::string& text) {
  OCTAVO_ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::Open(options.model));
  OCTAVO_ASSIGN_OR_RETURN(const auto tokenizer, Tokenizer::Create(checkpoint->tokenizer()));
  return tokenizer->Encode(text, options.parse_special);
}

}  // namespace

CommandBody AddTokenizeCommand(CLI::App& app) {
  auto options = std::make_shared<TokenizeOptions>();
  app.add_option("--model", options->model, "GGUF file or Hugging Face folder")->required();
  app.add_flag("--json", options->json, "Print {\"token_ids\": [...]} instead of plain numbers");
  app.add_flag("--parse-special", options->parse_special,
               "Turn the texts of special tokens into those tokens");
  app.footer("Reads standard input, which must be UTF-8. Nothing is added to the text.");
  return [options](Signals&) {
    const std::string text(std::istreambuf_iterator<char>(std::cin), {});
    const auto tokens = Tokenize(*options, text);
    if (!tokens.ok()) {
      absl::FPrintF(stderr, "octavo tokenize: %s\n", tokens.status().message());
      return 1;
    }
    if (options->json)
      absl::PrintF("%s\n", nlohmann::json({{"token_ids", *tokens}}).dump());
    else
      absl::PrintF("%s\n", absl::StrJoin(*tokens, " "));
    return 0;
  };
}

}  // namespace octavo::tools
