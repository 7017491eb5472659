// The parts of the benchmark of a card. Each measures one group of rows and prints them.
#ifndef OCTAVO_TESTS_BENCH_CUDA_BENCH_H_
#define OCTAVO_TESTS_BENCH_CUDA_BENCH_H_

#include "absl/status/status.h"
#include "tests/bench/cuda/device_timing.h"
#include "tests/bench/cuda/report.h"
#include "tests/bench/cuda/sizes.h"
#include "worker/cuda/cuda_backend.h"

namespace octavo::bench {

// Of kernels: a backend that records no graphs of its own, since the timing records.
struct Bench {
  cuda::CudaBackend& backend;
  const Sizes& sizes;
  Report& report;

  cudaStream_t stream() const { return backend.compute_stream(); }
  absl::StatusOr<Timing> Time(absl::FunctionRef<absl::Status(int call)> launch) const {
    return TimeCalls(stream(), sizes.timing, launch);
  }
};

// Attention and products against double sums, at a few of the sizes, into the report's checks.
absl::Status CheckKernels(Bench& bench);

// Copies on the device and over the link, and the large product: what all other rows are a share
// of. First of all groups.
absl::Status MeasureCeilings(Bench& bench);

absl::Status MeasureAttention(Bench& bench);
absl::Status MeasureRowKernels(Bench& bench);
absl::Status MeasureProducts(Bench& bench);

// Whole steps of a model of noise on a card of their own backend, with graphs; and swaps, alone and
// beside steps.
absl::Status MeasureSteps(int32_t device, const Sizes& sizes, Report& report);

}  // namespace octavo::bench

#endif  // OCTAVO_TESTS_BENCH_CUDA_BENCH_H_
