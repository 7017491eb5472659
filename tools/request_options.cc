#include "tools/request_options.h"

namespace octavo::tools {

void AddRequestOptions(CLI::App& app, RequestOptions* options) {
  app.add_option("--max-tokens", options->max_tokens,
                 "Tokens to generate at most [default: the server's]");
  app.add_option("--temperature", options->temperature,
                 "0 takes the most likely token; higher is more random [default: 1]");
  app.add_option("--top-k", options->top_k, "Keep the k most likely tokens [default: all]");
  app.add_option("--top-p", options->top_p,
                 "Keep the smallest set of tokens with this probability, (0, 1] [default: 1]");
  app.add_option("--min-p", options->min_p,
                 "Drop tokens below this share of the most likely one, [0, 1] [default: 0]");
  app.add_option("--seed", options->seed, "Random seed; the same seed repeats an answer");
  app.add_option("--logprobs", options->logprobs,
                 "Report log-probabilities with this many alternatives, 0 to 20 [default: none]");
  app.add_option("--prompt-logprobs", options->prompt_logprobs,
                 "The same of the prompt's tokens from the second on [default: none]");
  app.add_option("-n,--n", options->n, "Choices per prompt [default: 1]");
  app.add_option("--best-of", options->best_of,
                 "Generate so many choices and return the n most likely ones, when all have ended "
                 "[default: n]");
  app.add_option("--cache-salt", options->cache_salt,
                 "Share cached prefixes only with requests of the same salt");
  app.add_flag("--no-prefix-cache", options->no_prefix_cache,
               "Neither use the prefix cache nor enter the prompt into it");
  app.add_option("--stop", options->stop, "Text that ends the answer; may be repeated");
  app.add_flag("--ignore-eos", options->ignore_eos, "Go on after end-of-generation tokens");
}

void Fill(const RequestOptions& options, v1::GenerateRequest* request) {
  v1::SamplingParams* sampling = request->mutable_sampling();
  if (options.max_tokens) request->set_max_tokens(*options.max_tokens);
  if (options.temperature) sampling->set_temperature(*options.temperature);
  if (options.top_k) sampling->set_top_k(*options.top_k);
  if (options.top_p) sampling->set_top_p(*options.top_p);
  if (options.min_p) sampling->set_min_p(*options.min_p);
  if (options.seed) sampling->set_seed(*options.seed);
  if (options.logprobs) sampling->set_logprobs(*options.logprobs);
  if (options.prompt_logprobs) sampling->set_prompt_logprobs(*options.prompt_logprobs);
  if (options.n) sampling->set_n(*options.n);
  if (options.best_of) sampling->set_best_of(*options.best_of);
  request->set_cache_salt(options.cache_salt);
  if (options.no_prefix_cache) request->set_prefix_cache(false);
  for (const std::string& stop : options.stop) sampling->add_stop(stop);
  request->set_ignore_eos(options.ignore_eos);
}

}  // namespace octavo::tools
