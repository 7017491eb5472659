// What a card reaches: ceilings, every kernel as a share of them, whole steps, swaps.
//
//   octavo_cuda_bench [--sizes full|small] [--only GROUPS] [--json FILE] [--note KEY=VALUE]...
//
// octavo_cuda_bench_emulated is the same program on the emulated device of tests: it shows that the
// program works, and its times mean nothing. tools/device_bench.sh runs either.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "tests/bench/cuda/bench.h"
#include "worker/cuda/cuda_status.h"

namespace octavo::bench {
namespace {

#ifdef OCTAVO_EMULATED_BENCH
constexpr bool kEmulated = true;
#else
constexpr bool kEmulated = false;
#endif

constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;

struct Options {
  int32_t device = 0;
  std::string sizes = kEmulated ? "small" : "full";
  std::string json;
  std::vector<std::string> only;
  std::vector<std::string> notes;
};

absl::StatusOr<std::string> DeviceName(int32_t device) {
  cudaDeviceProp properties = {};
  OCTAVO_RETURN_IF_ERROR(
      cuda::ToStatus(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties"));
  return absl::StrCat(properties.name, ", ", properties.multiProcessorCount,
                      " multiprocessors, compute capability ", properties.major, ".",
                      properties.minor, ", ", properties.totalGlobalMem >> 20, " MiB");
}

absl::Status Run(const Options& options, Report& report) {
  const Sizes sizes = options.sizes == "full" ? FullSizes() : SmallSizes();
  cuda::CudaBackendOptions backend_options;
  backend_options.device = options.device;
  backend_options.graphs = false;
  OCTAVO_ASSIGN_OR_RETURN(std::unique_ptr<cuda::CudaBackend> backend,
                          cuda::CudaBackend::Create(backend_options));
  OCTAVO_ASSIGN_OR_RETURN(const std::string name, DeviceName(options.device));
  report.Note("device", kEmulated ? absl::StrCat(name, " (emulated: times mean nothing)") : name);
  report.Note("sizes", sizes.name);
  for (const std::string& note : options.notes) {
    const size_t equals = note.find('=');
    report.Note(note.substr(0, equals), equals == std::string::npos ? "" : note.substr(equals + 1));
  }

  Bench bench = {*backend, sizes, report};
  const auto wanted = [&](const char* group) {
    return options.only.empty() ||
           std::find(options.only.begin(), options.only.end(), group) != options.only.end();
  };
  const auto measure = [&](const char* group, const std::function<absl::Status()>& body) {
    const absl::Status measured = body();
    if (!measured.ok()) report.Fail(group, measured);
    return report.WriteJson();
  };
  if (wanted("checks"))
    OCTAVO_RETURN_IF_ERROR(measure("checks", [&] { return CheckKernels(bench); }));
  const absl::Status ceilings = MeasureCeilings(bench);
  OCTAVO_RETURN_IF_ERROR(ceilings);
  OCTAVO_RETURN_IF_ERROR(report.WriteJson());
  if (wanted("attention"))
    OCTAVO_RETURN_IF_ERROR(measure("attention", [&] { return MeasureAttention(bench); }));
  if (wanted("rows"))
    OCTAVO_RETURN_IF_ERROR(measure("rows", [&] { return MeasureRowKernels(bench); }));
  if (wanted("products"))
    OCTAVO_RETURN_IF_ERROR(measure("products", [&] { return MeasureProducts(bench); }));
  backend.reset();  // what its workspace takes, steps need
  if (wanted("steps"))
    OCTAVO_RETURN_IF_ERROR(
        measure("steps", [&] { return MeasureSteps(options.device, sizes, report); }));
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  CLI::App app(
      "Measures a card: first a few kernels against sums in double precision, then ceilings "
      "(copies "
      "and a large product), every kernel as a share of them, whole steps and swaps.");
  Options options;
  app.add_option("--device", options.device, "Which card, from 0")
      ->check(CLI::Range(0, 63))
      ->capture_default_str();
  app.add_option("--sizes", options.sizes,
                 "full: those of Llama-3-8B, some minutes. small: some hundred tokens, for "
                 "compute-sanitizer and the emulated device")
      ->check(CLI::IsMember({"full", "small"}))
      ->capture_default_str();
  app.add_option("--only", options.only,
                 "Groups to measure beside the ceilings, comma-separated: checks, attention, rows, "
                 "products, steps; default: all")
      ->delimiter(',')
      ->check(CLI::IsMember({"checks", "attention", "rows", "products", "steps"}));
  app.add_option("--json", options.json, "File for the same numbers, written after each group")
      ->type_name("PATH");
  app.add_option("--note", options.notes, "KEY=VALUE to keep with the numbers; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  }
  Report report(options.json);
  const absl::Status status = Run(options, report);
  if (!status.ok()) {
    std::fprintf(stderr, "octavo_cuda_bench: %s\n", std::string(status.message()).c_str());
    return kExitFailed;
  }
  return report.passed() ? 0 : kExitFailed;
}

}  // namespace
}  // namespace octavo::bench

int main(int argc, char** argv) { return octavo::bench::Main(argc, argv); }
