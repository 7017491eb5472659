#include "tools/simulate/traffic.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "tools/simulate/random_stream.h"
#include "tools/simulate/spec_reader.h"

namespace octavo::simulate {
namespace {

constexpr char kFormat[] = "octavo-traffic-1";
constexpr size_t kMostBuckets = 1 << 20;
constexpr int64_t kMostTokens = 1 << 30;

nlohmann::ordered_json ToJson(const LengthCounts& counts) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const LengthCounts::Bucket& bucket : counts.buckets) {
    json.push_back({bucket.up_to, bucket.count});
  }
  return json;
}

absl::StatusOr<LengthCounts> ParseCounts(const nlohmann::json& traffic, const char* field) {
  const auto found = traffic.find(field);
  const auto wrong = [field](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("the traffic's ", field, ": ", why));
  };
  if (found == traffic.end() || !found->is_array() || found->size() > kMostBuckets) {
    return wrong("it must be a list of [up_to, count]");
  }
  LengthCounts counts;
  int64_t last = 0;
  for (const nlohmann::json& pair : *found) {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_number_unsigned() ||
        !pair[1].is_number_unsigned()) {
      return wrong(absl::StrCat("each entry must be [up_to, count], not ", pair.dump()));
    }
    const uint64_t up_to = pair[0].get<uint64_t>();
    if (up_to > static_cast<uint64_t>(kMostTokens) || static_cast<int64_t>(up_to) <= last) {
      return wrong(absl::StrCat("up_to is ", up_to, " after ", last,
                                "; it must increase, from 1 to at most ", kMostTokens));
    }
    last = static_cast<int64_t>(up_to);
    counts.buckets.push_back({last, pair[1].get<uint64_t>()});
  }
  if (counts.total() == 0) return wrong("it counts no request");
  return counts;
}

LengthCounts Exact(const std::map<int64_t, uint64_t>& by_length) {
  LengthCounts counts;
  for (const auto& [length, count] : by_length) {
    // A bucket of one length begins right after the one before.
    const int64_t last = counts.buckets.empty() ? 0 : counts.buckets.back().up_to;
    if (length - 1 > last) counts.buckets.push_back({length - 1, 0});
    counts.buckets.push_back({length, count});
  }
  return counts;
}

// Uniform inside the bucket that it falls into.
int64_t Draw(const LengthCounts& counts, const std::vector<uint64_t>& sums, RandomStream* random) {
  const double at = random->Uniform() * static_cast<double>(sums.back());
  const size_t bucket =
      static_cast<size_t>(std::lower_bound(sums.begin(), sums.end(), at,
                                           [](uint64_t sum, double value) {
                                             return static_cast<double>(sum) < value;
                                           }) -
                          sums.begin());
  const int64_t above = bucket == 0 ? 0 : counts.buckets[bucket - 1].up_to;
  const double width = static_cast<double>(counts.buckets[bucket].up_to - above);
  return above + static_cast<int64_t>(std::ceil(random->Uniform() * width));
}

std::vector<uint64_t> Sums(const LengthCounts& counts) {
  std::vector<uint64_t> sums;
  uint64_t sum = 0;
  for (const LengthCounts::Bucket& bucket : counts.buckets) sums.push_back(sum += bucket.count);
  return sums;
}

}  // namespace

uint64_t LengthCounts::total() const {
  uint64_t sum = 0;
  for (const Bucket& bucket : buckets) sum += bucket.count;
  return sum;
}

int64_t LengthCounts::Percentile(double share) const {
  const double rank = share * static_cast<double>(total());
  uint64_t sum = 0;
  for (const Bucket& bucket : buckets) {
    sum += bucket.count;
    if (bucket.count > 0 && static_cast<double>(sum) >= rank) return bucket.up_to;
  }
  return 0;
}

double LengthCounts::ShareAbove(int64_t length) const {
  uint64_t above = 0;
  for (const Bucket& bucket : buckets) above += bucket.up_to > length ? bucket.count : 0;
  const uint64_t all = total();
  return all == 0 ? 0 : static_cast<double>(above) / static_cast<double>(all);
}

double LengthCounts::Mean() const {
  double sum = 0;
  int64_t above = 0;
  for (const Bucket& bucket : buckets) {
    sum += static_cast<double>(bucket.count) * static_cast<double>(above + 1 + bucket.up_to) / 2;
    above = bucket.up_to;
  }
  const uint64_t all = total();
  return all == 0 ? 0 : sum / static_cast<double>(all);
}

nlohmann::ordered_json ToJson(const Traffic& traffic) {
  nlohmann::ordered_json json;
  json["format"] = kFormat;
  json["source"] = traffic.source;
  json["requests_per_second"] = traffic.requests_per_second;
  json["busiest_requests_per_second"] = traffic.busiest_requests_per_second;
  json["prompt_tokens"] = ToJson(traffic.prompt);
  json["output_tokens"] = ToJson(traffic.output);
  json["total_tokens"] = ToJson(traffic.total);
  return json;
}

absl::StatusOr<Traffic> ParseTraffic(absl::string_view text) {
  SpecReader reader("the traffic", text);
  std::string format;
  Traffic traffic;
  reader.Text("format", &format);
  reader.Text("source", &traffic.source);
  reader.Number("requests_per_second", true, 0, 1e9, &traffic.requests_per_second);
  reader.Number("busiest_requests_per_second", true, 0, 1e9, &traffic.busiest_requests_per_second);
  OCTAVO_RETURN_IF_ERROR(reader.status());
  if (format != kFormat) {
    return absl::InvalidArgumentError(
        absl::StrCat("the traffic's format is \"", format, "\"; it must be \"", kFormat, "\""));
  }
  const nlohmann::json json = nlohmann::json::parse(text.begin(), text.end());
  OCTAVO_ASSIGN_OR_RETURN(traffic.prompt, ParseCounts(json, "prompt_tokens"));
  OCTAVO_ASSIGN_OR_RETURN(traffic.output, ParseCounts(json, "output_tokens"));
  OCTAVO_ASSIGN_OR_RETURN(traffic.total, ParseCounts(json, "total_tokens"));
  return traffic;
}

absl::StatusOr<Traffic> ReadTrafficFile(absl::string_view path) {
  OCTAVO_ASSIGN_OR_RETURN(const std::string json, ReadWholeFile(path));
  return ParseTraffic(json);
}

Traffic TrafficOf(const Trace& trace) {
  Traffic traffic{.source = trace.name};
  std::map<int64_t, uint64_t> prompt;
  std::map<int64_t, uint64_t> output;
  std::map<int64_t, uint64_t> total;
  std::map<int64_t, uint64_t> by_minute;
  for (const TraceRequest& request : trace.requests) {
    if (request.prompt_tokens < 1 || request.output_tokens < 1) continue;
    ++prompt[request.prompt_tokens];
    ++output[request.output_tokens];
    ++total[int64_t{request.prompt_tokens} + request.output_tokens];
    ++by_minute[static_cast<int64_t>(request.arrival_seconds / 60)];
  }
  traffic.prompt = Exact(prompt);
  traffic.output = Exact(output);
  traffic.total = Exact(total);
  if (!trace.has_arrivals) return traffic;
  traffic.requests_per_second = static_cast<double>(trace.requests.size()) / trace.Period();
  for (const auto& [minute, count] : by_minute) {
    traffic.busiest_requests_per_second =
        std::max(traffic.busiest_requests_per_second, static_cast<double>(count) / 60);
  }
  // A trace of less than a minute fills only a part of its one window.
  traffic.busiest_requests_per_second =
      std::max(traffic.busiest_requests_per_second, traffic.requests_per_second);
  return traffic;
}

Trace DrawTrace(const Traffic& traffic, int64_t count, uint64_t seed) {
  Trace trace{.name = traffic.source, .has_arrivals = false};
  RandomStream random(seed);
  const std::vector<uint64_t> prompts = Sums(traffic.prompt);
  const std::vector<uint64_t> outputs = Sums(traffic.output);
  const int64_t longest = traffic.total.Percentile(1);
  trace.requests.resize(static_cast<size_t>(count));
  for (TraceRequest& request : trace.requests) {
    const int64_t prompt = Draw(traffic.prompt, prompts, &random);
    const int64_t output = Draw(traffic.output, outputs, &random);
    request.prompt_tokens =
        static_cast<int32_t>(std::min(prompt, std::max<int64_t>(1, longest - 1)));
    request.output_tokens = static_cast<int32_t>(
        std::clamp<int64_t>(output, 1, std::max<int64_t>(1, longest - request.prompt_tokens)));
  }
  return trace;
}

}  // namespace octavo::simulate
