// What a benchmark of a card measured, as a table for people and JSON for programs.
#ifndef OCTAVO_TESTS_BENCH_CUDA_REPORT_H_
#define OCTAVO_TESTS_BENCH_CUDA_REPORT_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace octavo::bench {

struct Timing {  // seconds of one call
  double min = 0;
  double median = 0;
  double max = 0;
  int samples = 0;
};

// REQUIRES: at least one.
Timing TimingOf(std::vector<double> seconds);

// What one call must move and compute at least.
struct Work {
  double bytes = 0;
  double flops = 0;
};

// What a call cannot be faster than; decided from shapes before anything is measured.
enum class Bound {
  kMemory,    // bytes at the rate of a copy on the device
  kProducts,  // flops at the rate of a large bf16 product
  kToDevice,  // bytes at the rate of a pinned copy there
  kToHost,    // and back
};

// Rates that this card reached in this run.
struct Ceilings {
  double copy = 0;       // bytes per second, read and written
  double products = 0;   // flops per second
  double to_device = 0;  // bytes per second
  double to_host = 0;

  // The least that `work` takes under `bound`.
  double Seconds(Bound bound, const Work& work) const;
  // Memory or products, whichever takes longer.
  Bound Binding(const Work& work) const;
};

struct Row {
  std::string group;
  std::string name;
  Bound bound = Bound::kMemory;
  Work work;
  double bound_seconds = 0;  // 0: the row is a ceiling itself
  Timing time;
  std::string note;
  std::vector<std::pair<std::string, double>> more;  // for JSON: name with unit, value
};

// Prints each row as it comes, so that a run that is cut short has told what it knows.
class Report {
 public:
  explicit Report(std::string json_path) : json_path_(std::move(json_path)) {}

  // Facts about the run: device, sizes, what a caller wants to be kept with the numbers.
  void Note(const std::string& key, const std::string& value);
  // `error` is compared with `tolerance`; NaN fails.
  void Check(const std::string& name, double error, double tolerance);
  void Add(const Row& row);
  void Skip(const std::string& group, const std::string& name, const absl::Status& reason);
  void Fail(const std::string& group, const absl::Status& reason);

  const Ceilings& ceilings() const { return ceilings_; }
  void SetCeilings(const Ceilings& ceilings) { ceilings_ = ceilings; }
  // No check was outside its tolerance and no group ended with an error.
  bool passed() const { return passed_; }
  // All so far, in place of what the file held; nothing without a path.
  absl::Status WriteJson() const;

 private:
  struct Checked {
    std::string name;
    double error = 0;
    double tolerance = 0;
    bool passed = false;
  };
  struct Skipped {
    std::string group, name, reason;
  };

  const std::string json_path_;
  std::vector<std::pair<std::string, std::string>> notes_;
  Ceilings ceilings_;
  std::vector<Checked> checks_;
  std::vector<Row> rows_;
  std::vector<Skipped> skipped_;
  std::vector<Skipped> failed_;
  bool passed_ = true;
};

}  // namespace octavo::bench

#endif  // OCTAVO_TESTS_BENCH_CUDA_REPORT_H_
