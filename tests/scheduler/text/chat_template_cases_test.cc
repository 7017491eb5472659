// What Python's Jinja2 makes of several hundred templates (tests/data/chat_templates.jsonl, written
// by make_chat_templates.py).
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "scheduler/text/chat_template.h"

namespace octavo {
namespace {

using Json = nlohmann::ordered_json;

std::vector<Json> ReadLines(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.is_open()) << path;
  std::vector<Json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(Json::parse(line));
  return lines;
}

absl::StatusOr<std::string> Render(const std::string& source, const Json& context) {
  const absl::StatusOr<ChatTemplate> chat = ChatTemplate::Parse(source);
  if (!chat.ok()) return chat.status();
  ChatTemplate::Input input;
  input.context = context;
  input.special_tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  const auto pieces = chat->Render(input, {}, absl::FromUnixSeconds(1'700'000'000));
  if (!pieces.ok()) return pieces.status();
  return ChatTemplate::Text(*pieces);
}

TEST(ChatTemplateCases, EqualPythonsJinja) {
  std::map<std::string, std::string> templates;
  Json default_context;
  int rendered = 0;
  int refused = 0;
  for (const Json& line : ReadLines(OCTAVO_SOURCE_DIR "/tests/data/chat_templates.jsonl")) {
    if (line.contains("default_context")) {
      default_context = line["default_context"];
      continue;
    }
    if (line.contains("template_name")) {
      templates[line["template_name"]] = line["template"];
      continue;
    }
    const std::string name = line["name"];
    const std::string source =
        line.contains("use") ? templates.at(line["use"]) : line["template"].get<std::string>();
    const Json& context = line.contains("context") ? line["context"] : default_context;
    const auto result = Render(source, context);
    if (line.contains("error")) {
      EXPECT_FALSE(result.ok()) << name << ": " << source << "\nPython says " << line["error"];
      ++refused;
      continue;
    }
    ASSERT_TRUE(result.ok()) << name << ": " << source << "\n" << result.status();
    EXPECT_EQ(*result, line["output"].get<std::string>()) << name << ": " << source;
    ++rendered;
  }
  EXPECT_GT(rendered, 500);
  EXPECT_GT(refused, 200);
}

}  // namespace
}  // namespace octavo
