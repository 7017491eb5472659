// Options of the commands that generate: how to sample and when to stop.
#ifndef OCTAVO_TOOLS_REQUEST_OPTIONS_H_
#define OCTAVO_TOOLS_REQUEST_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "octavo/v1/generation.pb.h"

namespace octavo::tools {

// Unset values are not sent: the server's defaults hold.
struct RequestOptions {
  std::optional<uint32_t> max_tokens;
  std::optional<float> temperature;
  std::optional<uint32_t> top_k;
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<uint64_t> seed;
  std::optional<uint32_t> logprobs;
  std::optional<uint32_t> prompt_logprobs;
  std::optional<uint32_t> n;
  std::optional<uint32_t> best_of;
  std::string cache_salt;
  bool no_prefix_cache = false;
  std::vector<std::string> stop;
  bool ignore_eos = false;
};

void AddRequestOptions(CLI::App& app, RequestOptions* options);
void Fill(const RequestOptions& options, v1::GenerateRequest* request);

}  // namespace octavo::tools

#endif  // OCTAVO_TOOLS_REQUEST_OPTIONS_H_
