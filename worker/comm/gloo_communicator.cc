#include "worker/comm/gloo_communicator.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/status_macros.h"
#include "worker/comm/gloo_mesh.h"
#include "worker/comm/rank_order_sum.h"

namespace octavo {
namespace {

// From here on an all-reduce of more than two ranks goes in two rounds: each rank adds up one
// part and sends it on, 2 (n - 1) / n times the data per rank instead of n - 1 times, for the price
// of one more round trip. Either way an element is summed in the order of ranks.
constexpr int64_t kTwoRoundFloats = 32 * 1024;

class GlooCommunicator : public Communicator {
 public:
  explicit GlooCommunicator(std::unique_ptr<GlooMesh> mesh) : mesh_(std::move(mesh)) {}

  GroupPlace place() const override { return mesh_->place(); }

  absl::Status AllReduceSum(float* data, int64_t count) override {
    const auto [rank, size] = place();
    if (size == 1 || count == 0) return absl::OkStatus();
    if (size > 2 && count >= kTwoRoundFloats) return ReduceInTwoRounds(data, count);
    Begin((size - 1) * count);
    parts_.clear();
    for (int32_t peer = 0; peer < size; ++peer) {
      if (peer == rank) {
        parts_.push_back(data);
        continue;
      }
      parts_.push_back(Receive(peer, count));
      Send(peer, data, count);
    }
    OCTAVO_RETURN_IF_ERROR(mesh_->Exchange(sends_, receives_));
    SumInRankOrder(parts_, count, data);
    return absl::OkStatus();
  }

  absl::Status Broadcast(void* data, int64_t bytes) override {
    const auto [rank, size] = place();
    Begin(0);
    if (rank != 0) receives_.push_back({0, data, bytes});
    for (int32_t peer = 1; rank == 0 && peer < size; ++peer) sends_.push_back({peer, data, bytes});
    return mesh_->Exchange(sends_, receives_);
  }

  absl::Status GatherColumns(const Matrix& local, const std::vector<int64_t>& begins,
                             const Matrix& out) override {
    const auto [rank, size] = place();
    OCTAVO_CHECK(static_cast<int64_t>(begins.size()) == size, "begins=", begins.size());
    if (rank != 0) {
      OCTAVO_CHECK(local.stride == local.cols, "stride=", local.stride, " cols=", local.cols);
      Begin(0);
      Send(0, local.data, local.rows * local.cols);
      return mesh_->Exchange(sends_, receives_);
    }
    const auto cols_of = [&](int32_t peer) {
      const size_t next = static_cast<size_t>(peer) + 1;
      return (next < begins.size() ? begins[next] : out.cols) - begins[next - 1];
    };
    Begin(out.rows * (out.cols - cols_of(0)));
    parts_.assign(1, nullptr);
    for (int32_t peer = 1; peer < size; ++peer)
      parts_.push_back(Receive(peer, out.rows * cols_of(peer)));
    OCTAVO_RETURN_IF_ERROR(mesh_->Exchange(sends_, receives_));
    for (int32_t peer = 1; peer < size; ++peer) {
      const int64_t cols = cols_of(peer);
      const float* part = parts_[static_cast<size_t>(peer)];
      for (int64_t row = 0; row < out.rows; ++row)
        std::copy_n(part + row * cols, cols, out.row(row) + begins[static_cast<size_t>(peer)]);
    }
    return absl::OkStatus();
  }

  absl::Status Barrier() override {
    float nothing = 0;
    return AllReduceSum(&nothing, 1);
  }

  // They are when they return.
  absl::Status Finish() override { return absl::OkStatus(); }

  void Abort(const absl::Status& reason) override { mesh_->Abort(reason); }

 private:
  // Rank r adds up part r of the data, and then every rank has its part of everyone.
  absl::Status ReduceInTwoRounds(float* data, int64_t count) {
    const auto [rank, size] = place();
    const auto begin = [&, ranks = size](int64_t part) { return count * part / ranks; };
    const int64_t own = begin(rank + 1) - begin(rank);
    Begin((size - 1) * own);
    parts_.clear();
    for (int32_t peer = 0; peer < size; ++peer) {
      if (peer == rank) {
        parts_.push_back(data + begin(rank));
        continue;
      }
      parts_.push_back(Receive(peer, own));
      Send(peer, data + begin(peer), begin(peer + 1) - begin(peer));
    }
    OCTAVO_RETURN_IF_ERROR(mesh_->Exchange(sends_, receives_));
    SumInRankOrder(parts_, own, data + begin(rank));

    Begin(0);
    for (int32_t peer = 0; peer < size; ++peer) {
      if (peer == rank) continue;
      Send(peer, data + begin(rank), own);
      const int64_t theirs = begin(peer + 1) - begin(peer);
      receives_.push_back({peer, data + begin(peer), theirs * int64_t{sizeof(float)}});
    }
    return mesh_->Exchange(sends_, receives_);
  }

  // A new round with room for `floats` of what is received.
  void Begin(int64_t floats) {
    sends_.clear();
    receives_.clear();
    used_ = 0;
    if (static_cast<size_t>(floats) > staging_.size()) staging_.resize(static_cast<size_t>(floats));
  }
  const float* Receive(int32_t peer, int64_t count) {
    float* const to = staging_.data() + used_;
    used_ += count;
    receives_.push_back({peer, to, count * int64_t{sizeof(float)}});
    return to;
  }
  void Send(int32_t peer, float* data, int64_t count) {
    sends_.push_back({peer, data, count * int64_t{sizeof(float)}});
  }

  const std::unique_ptr<GlooMesh> mesh_;
  // Reused from round to round; they grow to the largest and stay.
  std::vector<float> staging_;
  int64_t used_ = 0;
  std::vector<const float*> parts_;  // [rank]
  std::vector<MeshMessage> sends_;
  std::vector<MeshMessage> receives_;
};

class GlooOffer : public CommunicatorOffer {
 public:
  explicit GlooOffer(std::unique_ptr<GlooMesh> mesh)
      : address_(mesh->address()), mesh_(std::move(mesh)) {}

  const std::string& address() const override { return address_; }

  absl::StatusOr<std::unique_ptr<Communicator>> Join(
      const std::vector<std::string>& addresses) override {
    OCTAVO_CHECK(mesh_ != nullptr, "joined twice");
    std::unique_ptr<GlooMesh> mesh = std::move(mesh_);
    OCTAVO_RETURN_IF_ERROR(mesh->Connect(addresses));
    auto communicator = std::make_unique<GlooCommunicator>(std::move(mesh));
    // A listening rank is connected to before it has joined.
    OCTAVO_RETURN_IF_ERROR(communicator->Barrier());
    return communicator;
  }

 private:
  const std::string address_;
  std::unique_ptr<GlooMesh> mesh_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<CommunicatorOffer>> OfferGloo(const CommunicatorOptions& options) {
  OCTAVO_ASSIGN_OR_RETURN(std::unique_ptr<GlooMesh> mesh, GlooMesh::Listen(options));
  return std::make_unique<GlooOffer>(std::move(mesh));
}

}  // namespace octavo
