#include "tests/scheduler/text/chat_template_fuzz.h"

#include <algorithm>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace octavo {
namespace {

std::vector<std::string> Seeds() {
  std::ifstream file(OCTAVO_SOURCE_DIR "/tests/data/chat_templates.jsonl");
  EXPECT_TRUE(file.is_open());
  std::vector<std::string> seeds;
  for (std::string line; std::getline(file, line);) {
    const auto json = nlohmann::json::parse(line);
    if (json.contains("template")) seeds.push_back(json["template"]);
  }
  return seeds;
}

// Deletes, doubles, swaps or replaces a stretch, or brings one in from another template.
std::string Mutate(const std::vector<std::string>& seeds, std::mt19937_64& random) {
  static const std::vector<std::string> words = {"{%",
                                                 "%}",
                                                 "{{",
                                                 "}}",
                                                 "{#",
                                                 "-",
                                                 "|",
                                                 ".",
                                                 "[",
                                                 "]",
                                                 "(",
                                                 ")",
                                                 "'",
                                                 ":",
                                                 ",",
                                                 " if ",
                                                 " else ",
                                                 " for ",
                                                 " in ",
                                                 "loop.",
                                                 "ns",
                                                 "range(9)",
                                                 "|tojson",
                                                 "|map('upper')",
                                                 "*",
                                                 "**",
                                                 "9999999999",
                                                 "-1",
                                                 "{% endfor %}",
                                                 "{% endif %}",
                                                 "{% set x = ",
                                                 "messages",
                                                 "\xC3\xA9",
                                                 "\\",
                                                 "\n",
                                                 "~",
                                                 " is ",
                                                 "not ",
                                                 "|list",
                                                 "|join",
                                                 "%",
                                                 "//",
                                                 "{}",
                                                 "[]",
                                                 "none",
                                                 "caller()"};
  const auto below = [&](size_t bound) { return bound == 0 ? 0 : random() % bound; };
  std::string text = seeds[below(seeds.size())];
  for (size_t edits = 1 + below(4); edits > 0; --edits) {
    const size_t at = below(text.size() + 1);
    const size_t length = std::min(text.size() - at, below(12));
    switch (below(5)) {
      case 0:
        text.erase(at, length);
        break;
      case 1:
        text.insert(at, text.substr(at, length));
        break;
      case 2:
        text.insert(at, words[below(words.size())]);
        break;
      case 3:
        text.replace(at, length, words[below(words.size())]);
        break;
      default: {
        const std::string& other = seeds[below(seeds.size())];
        text.insert(at, other.substr(below(other.size() + 1), below(60)));
      }
    }
  }
  return text;
}

TEST(ChatTemplateFuzz, MutatedTemplatesEndWithinTheLimits) {
  const std::vector<std::string> seeds = Seeds();
  ASSERT_GT(seeds.size(), 500u);
  std::mt19937_64 random(20240229);
  for (int i = 0; i < 20'000; ++i) FuzzChatTemplate(Mutate(seeds, random));
}

TEST(ChatTemplateFuzz, BytesThatAreNoTextAreRefused) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 2'000; ++i) {
    std::string bytes(random() % 64, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    FuzzChatTemplate(bytes);
  }
}

}  // namespace
}  // namespace octavo
