// What `octavo bench paging` found, as tables and as JSON.
#ifndef OCTAVO_TOOLS_PAGING_PAGING_REPORT_H_
#define OCTAVO_TOOLS_PAGING_PAGING_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "scheduler/core/kv_allocation.h"
#include "tools/paging/local_engine.h"
#include "tools/paging/rates.h"

namespace octavo::paging {

struct Spread {
  double min = 0;
  double median = 0;
  double max = 0;
};
// The lower median of an even number. REQUIRES: not empty.
Spread SpreadOf(std::vector<double> values);

// One policy with one block size.
struct Setting {
  KvAllocation allocation = KvAllocation::kPaged;
  int32_t block_size = 16;
};

// One setting in one repeat.
struct Measurement {
  BatchResult result;            // its tokens dropped
  bool same_tokens = true;       // as the first setting of the first repeat gave
  double predicted_seconds = 0;  // 0: rates were not measured
};

struct PagingReport {
  WorkloadShape shape;
  std::string trace;
  bool cpu_clock = false;  // seconds are of CPU time
  int64_t skipped = 0;
  int64_t clipped = 0;
  int32_t max_model_len = 0;
  int64_t pool_tokens = 0;
  int64_t pool_bytes = 0;
  std::vector<Setting> settings;
  std::vector<std::vector<Measurement>> runs;  // [setting][repeat]
  std::vector<Rates> rates;                    // [repeat], or empty

  bool same_tokens() const;
};

// How much faster the first setting finished than another one, over repeats.
struct Gain {
  Setting over;
  Spread achieved;
  std::optional<Spread> predicted;
  std::optional<Spread> achieved_of_predicted;
};
// Of the first setting over each of the others.
std::vector<Gain> GainsOf(const PagingReport& report);

// "contiguous_max"; with several block sizes "paged_8".
std::string KeyOf(const PagingReport& report, const Setting& setting);

nlohmann::json ToJson(const PagingReport& report);
std::string ToTable(const PagingReport& report);

}  // namespace octavo::paging

#endif  // OCTAVO_TOOLS_PAGING_PAGING_REPORT_H_
