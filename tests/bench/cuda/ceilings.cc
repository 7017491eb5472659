#include <algorithm>

#include "common/status_macros.h"
#include "tests/bench/cuda/bench.h"
#include "tests/bench/cuda/device_data.h"
#include "worker/cuda/cuda_status.h"
#include "worker/cuda/gemm.h"

namespace octavo::bench {
namespace {

constexpr const char* kGroup = "ceiling";

absl::Status Copy(void* to, const void* from, int64_t bytes, cudaMemcpyKind kind,
                  cudaStream_t stream) {
  return cuda::ToStatus(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), kind, stream),
                        "cudaMemcpyAsync");
}

// The rate, of the median.
double Add(Report& report, const char* name, Bound bound, const Work& work, const Timing& time) {
  Row row;
  row.group = kGroup;
  row.name = name;
  row.bound = bound;
  row.work = work;
  row.time = time;
  report.Add(row);
  const double amount = bound == Bound::kProducts ? work.flops : work.bytes;
  return amount / std::max(time.median, 1e-12);
}

// Bound by flops: 2 n^3 of them over 8 n^2 bytes are n / 4 a byte, 2,048 at n = 8,192.
absl::StatusOr<double> MeasureProduct(Bench& bench) {
  const int64_t n = bench.sizes.product_size;
  OCTAVO_ASSIGN_OR_RETURN(const Buffer x, RandomBFloat16(bench.backend, n * n));
  OCTAVO_ASSIGN_OR_RETURN(const Buffer weight, RandomBFloat16(bench.backend, n * n));
  OCTAVO_ASSIGN_OR_RETURN(const Buffer out,
                          bench.backend.Allocate(static_cast<size_t>(n * n) * sizeof(float)));
  OCTAVO_ASSIGN_OR_RETURN(const std::unique_ptr<cuda::Gemm> gemm, cuda::Gemm::Create());
  cuda::GemmArgs args;
  args.x = x.as<uint16_t>();
  args.weight = weight.as<uint16_t>();
  args.out = out.as<float>();
  args.x_stride = args.weight_stride = args.out_stride = n;
  args.rows = args.in_features = args.out_features = n;
  OCTAVO_ASSIGN_OR_RETURN(const Timing time,
                          bench.Time([&](int) { return gemm->Run(args, bench.stream()); }));
  const auto size = static_cast<double>(n);
  return Add(bench.report, "bf16 product", Bound::kProducts,
             {8 * size * size, 2 * size * size * size}, time);
}

// Bound by memory: every byte is read once and written once.
absl::StatusOr<double> MeasureCopy(Bench& bench) {
  const int64_t bytes = bench.sizes.copy_bytes;
  OCTAVO_ASSIGN_OR_RETURN(const Buffer from, RandomFloats(bench.backend, bytes / 4));
  OCTAVO_ASSIGN_OR_RETURN(const Buffer to, bench.backend.Allocate(static_cast<size_t>(bytes)));
  OCTAVO_ASSIGN_OR_RETURN(const Timing time, bench.Time([&](int) {
    return Copy(to.data(), from.data(), bytes, cudaMemcpyDeviceToDevice, bench.stream());
  }));
  return Add(bench.report, "copy on the device", Bound::kMemory,
             {2.0 * static_cast<double>(bytes), 0}, time);
}

// Bound by the link. Both ways at once says whether swapping in waits for swapping out.
absl::Status MeasureLink(Bench& bench, Ceilings* ceilings) {
  const int64_t bytes = bench.sizes.link_bytes;
  const auto size = static_cast<double>(bytes);
  OCTAVO_ASSIGN_OR_RETURN(const Buffer device, RandomFloats(bench.backend, bytes / 4));
  OCTAVO_ASSIGN_OR_RETURN(const Buffer other, RandomFloats(bench.backend, bytes / 4));
  OCTAVO_ASSIGN_OR_RETURN(const Buffer in, bench.backend.AllocateHost(static_cast<size_t>(bytes)));
  OCTAVO_ASSIGN_OR_RETURN(const Buffer out, bench.backend.AllocateHost(static_cast<size_t>(bytes)));
  std::fill_n(in.data(), bytes, std::byte{0x5a});
  std::fill_n(out.data(), bytes, std::byte{0x5a});
  const auto to_device = [&](cudaStream_t stream) {
    return Copy(device.data(), in.data(), bytes, cudaMemcpyHostToDevice, stream);
  };
  const auto to_host = [&](cudaStream_t stream) {
    return Copy(out.data(), other.data(), bytes, cudaMemcpyDeviceToHost, stream);
  };
  OCTAVO_ASSIGN_OR_RETURN(const Timing in_time,
                          bench.Time([&](int) { return to_device(bench.stream()); }));
  ceilings->to_device =
      Add(bench.report, "pinned copy to the device", Bound::kToDevice, {size, 0}, in_time);
  OCTAVO_ASSIGN_OR_RETURN(const Timing out_time,
                          bench.Time([&](int) { return to_host(bench.stream()); }));
  ceilings->to_host =
      Add(bench.report, "pinned copy to the host", Bound::kToHost, {size, 0}, out_time);

  cuda::OwnedStream second;
  OCTAVO_RETURN_IF_ERROR(second.Create());
  TimedEvent forked, joined;
  OCTAVO_RETURN_IF_ERROR(forked.Create());
  OCTAVO_RETURN_IF_ERROR(joined.Create());
  OCTAVO_ASSIGN_OR_RETURN(const Timing both, bench.Time([&](int) -> absl::Status {
    OCTAVO_RETURN_IF_ERROR(forked.Record(bench.stream()));
    OCTAVO_RETURN_IF_ERROR(
        cuda::ToStatus(cudaStreamWaitEvent(second.get(), forked.get(), 0), "cudaStreamWaitEvent"));
    OCTAVO_RETURN_IF_ERROR(to_device(bench.stream()));
    OCTAVO_RETURN_IF_ERROR(to_host(second.get()));
    OCTAVO_RETURN_IF_ERROR(joined.Record(second.get()));
    return cuda::ToStatus(cudaStreamWaitEvent(bench.stream(), joined.get(), 0),
                          "cudaStreamWaitEvent");
  }));
  Add(bench.report, "pinned copies both ways", Bound::kToDevice, {2 * size, 0}, both);
  return absl::OkStatus();
}

}  // namespace

absl::Status MeasureCeilings(Bench& bench) {
  Ceilings ceilings;
  // First, for it raises the clocks.
  OCTAVO_ASSIGN_OR_RETURN(ceilings.products, MeasureProduct(bench));
  OCTAVO_ASSIGN_OR_RETURN(ceilings.copy, MeasureCopy(bench));
  OCTAVO_RETURN_IF_ERROR(MeasureLink(bench, &ceilings));
  bench.report.SetCeilings(ceilings);
  return absl::OkStatus();
}

}  // namespace octavo::bench
