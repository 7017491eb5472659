#include "worker/comm/nccl_communicator.h"

#include <nccl.h>

#include <algorithm>
#include <cstdlib>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/check.h"
#include "common/status_macros.h"
#include "worker/comm/gloo_mesh.h"
#include "worker/comm/nccl_handle.h"

namespace octavo {
namespace {

// What rank 0 receives of the logits before it puts them in their columns, 4 MiB: 16 rows of half a
// vocabulary of 128 Ki. One row of any vocabulary of less than 1 Mi fits.
constexpr int64_t kGatherFloats = int64_t{1} << 20;
// For ranks that nobody has named yet, to name those that do not answer.
constexpr absl::Duration kRollCall = absl::Seconds(1);

class NcclCommunicator : public Communicator {
 public:
  NcclCommunicator(const CommunicatorOptions& options, cudaStream_t stream,
                   std::unique_ptr<GlooMesh> mesh)
      : options_(options),
        stream_(stream),
        handle_(std::make_unique<NcclHandle>(options.place, options.timeout)),
        mesh_(std::move(mesh)),
        answers_(static_cast<size_t>(options.place.size)) {}
  ~NcclCommunicator() override {
    mesh_.reset();    // it tells the handle who is lost
    handle_.reset();  // before memory is freed, which waits for the card
    cudaFree(gathered_);
  }

  // Collective.
  absl::Status Found(const std::vector<std::string>& addresses) {
    const absl::Time deadline = handle_->Begin();
    NcclHandle* const handle = handle_.get();
    OCTAVO_RETURN_IF_ERROR(Named(mesh_->Connect(
        addresses, [handle](const absl::Status& lost) { handle->Fail(lost).IgnoreError(); })));
    // A rank may be connected to before it has joined. NCCL waits for absent ranks without an end.
    OCTAVO_RETURN_IF_ERROR(Meet(deadline));
    ncclUniqueId id = {};
    if (options_.place.rank == 0) {
      OCTAVO_RETURN_IF_ERROR(ToStatus(ncclGetUniqueId(&id), "ncclGetUniqueId"));
      OCTAVO_RETURN_IF_ERROR(
          ToStatus(cudaMalloc(reinterpret_cast<void**>(&gathered_), kGatherFloats * sizeof(float)),
                   "memory to gather logits in"));
    }
    OCTAVO_RETURN_IF_ERROR(HandOut(&id, sizeof(id), deadline));
    OCTAVO_RETURN_IF_ERROR(handle_->Found(id));
    handle_->End();
    return absl::OkStatus();
  }

  GroupPlace place() const override { return options_.place; }

  absl::Status AllReduceSum(float* data, int64_t count) override {
    if (count == 0) return absl::OkStatus();
    handle_->Begin();
    return Answer(handle_->Call("ncclAllReduce", [&](ncclComm_t comm) {
      return ncclAllReduce(data, data, static_cast<size_t>(count), ncclFloat, ncclSum, comm,
                           stream_);
    }));
  }

  absl::Status Broadcast(void* data, int64_t bytes) override {
    return HandOut(data, bytes, absl::InfiniteFuture());
  }

  absl::Status GatherColumns(const Matrix& local, const std::vector<int64_t>& begins,
                             const Matrix& out) override {
    const auto [rank, size] = options_.place;
    OCTAVO_CHECK(static_cast<int64_t>(begins.size()) == size, "begins=", begins.size());
    if (size == 1) return absl::OkStatus();
    // The same on every rank, and so are the messages.
    const int64_t most_rows = kGatherFloats / (out.cols - begins[1]);
    if (most_rows == 0)
      return absl::InvalidArgumentError(absl::StrCat("a row of logits has ", out.cols, " columns; ",
                                                     kGatherFloats,
                                                     " are the most that are gathered"));
    handle_->Begin();
    for (int64_t first = 0; first < out.rows; first += most_rows) {
      const int64_t rows = std::min(most_rows, out.rows - first);
      if (rank == 0) {
        OCTAVO_RETURN_IF_ERROR(GatherRows({out.row(first), rows, out.cols, out.stride}, begins));
        continue;
      }
      OCTAVO_CHECK(local.stride == local.cols, "stride=", local.stride, " cols=", local.cols);
      OCTAVO_RETURN_IF_ERROR(Answer(handle_->Call("ncclSend", [&](ncclComm_t comm) {
        return ncclSend(local.row(first), static_cast<size_t>(rows * local.cols), ncclFloat, 0,
                        comm, stream_);
      })));
    }
    return absl::OkStatus();
  }

  absl::Status Barrier() override { return Finish(); }

  absl::Status Finish() override {
    OCTAVO_RETURN_IF_ERROR(Answer(handle_->status()));
    // While the card computes: who is missing here is missing in what NCCL waits for.
    OCTAVO_RETURN_IF_ERROR(Meet(handle_->Begin()));
    met_ = true;
    while (true) {
      const cudaError_t state = cudaStreamQuery(stream_);
      // After an abort the stream ends too, with whatever is in memory.
      OCTAVO_RETURN_IF_ERROR(Answer(handle_->Check()));
      if (state == cudaSuccess) break;
      if (state != cudaErrorNotReady)
        return handle_->Fail(ToStatus(state, "a stream with collectives"));
      std::this_thread::yield();
    }
    met_ = false;
    handle_->End();
    return absl::OkStatus();
  }

  void Abort(const absl::Status& reason) override {
    handle_->Fail(reason).IgnoreError();
    mesh_->Abort(reason);
  }

 private:
  // Every rank's columns but rank 0's, into `out`.
  absl::Status GatherRows(const Matrix& out, const std::vector<int64_t>& begins) {
    // Each rank's rows without gaps, one rank after the other.
    const auto part = [&](size_t peer) {
      return gathered_ + out.rows * (begins[peer] - begins[1]);
    };
    const auto cols = [&](size_t peer) {
      return (peer + 1 < begins.size() ? begins[peer + 1] : out.cols) - begins[peer];
    };
    OCTAVO_RETURN_IF_ERROR(Answer(handle_->Call("ncclRecv", [&](ncclComm_t comm) {
      ncclResult_t result = ncclGroupStart();
      for (size_t peer = 1; peer < begins.size() && result == ncclSuccess; ++peer)
        result = ncclRecv(part(peer), static_cast<size_t>(out.rows * cols(peer)), ncclFloat,
                          static_cast<int>(peer), comm, stream_);
      const ncclResult_t ended = ncclGroupEnd();
      return result == ncclSuccess || result == ncclInProgress ? ended : result;
    })));
    for (size_t peer = 1; peer < begins.size(); ++peer) {
      const size_t row_bytes = static_cast<size_t>(cols(peer)) * sizeof(float);
      const cudaError_t copied = cudaMemcpy2DAsync(
          out.data + begins[peer], static_cast<size_t>(out.stride) * sizeof(float), part(peer),
          row_bytes, row_bytes, static_cast<size_t>(out.rows), cudaMemcpyDeviceToDevice, stream_);
      if (copied != cudaSuccess) return handle_->Fail(ToStatus(copied, "gathering logits"));
    }
    return absl::OkStatus();
  }

  // Returns once every rank has called it.
  absl::Status Meet(absl::Time deadline) {
    sends_.clear();
    receives_.clear();
    for (int32_t peer = 0; peer < options_.place.size; ++peer) {
      if (peer == options_.place.rank) continue;
      sends_.push_back({peer, &presence_, 1});
      receives_.push_back({peer, &answers_[static_cast<size_t>(peer)], 1});
    }
    return Named(mesh_->Exchange(sends_, receives_, deadline));
  }

  // Host memory, from rank 0 to all.
  absl::Status HandOut(void* data, int64_t bytes, absl::Time deadline) {
    OCTAVO_RETURN_IF_ERROR(handle_->status());
    const auto [rank, size] = options_.place;
    sends_.clear();
    receives_.clear();
    if (rank != 0) receives_.push_back({0, data, bytes});
    for (int32_t peer = 1; rank == 0 && peer < size; ++peer) sends_.push_back({peer, data, bytes});
    return Named(mesh_->Exchange(sends_, receives_, deadline));
  }

  // Of the mesh, whose errors have names. The first error of all is the group's.
  absl::Status Named(const absl::Status& status) {
    if (status.ok()) return status;
    return handle_->overdue() ? handle_->Name(status) : handle_->Fail(status);
  }

  // Of the handle. Where the clock alone has ended the group before its ranks met, those that still
  // answer find out which does not: they are all here, at about the same time.
  absl::Status Answer(const absl::Status& status) {
    if (status.ok() || met_ || !handle_->overdue()) return status;
    met_ = true;  // or as good as: once is enough
    const absl::Status called = Meet(absl::Now() + kRollCall);
    return called.ok() ? status : called;
  }

  const CommunicatorOptions options_;
  const cudaStream_t stream_;
  std::unique_ptr<NcclHandle> handle_;
  std::unique_ptr<GlooMesh> mesh_;
  float* gathered_ = nullptr;  // [kGatherFloats] of the card; rank 0 only
  bool met_ = false;           // every rank has called Finish since the last one ended
  // Reused from round to round.
  char presence_ = 1;
  std::vector<char> answers_;  // [rank]
  std::vector<MeshMessage> sends_;
  std::vector<MeshMessage> receives_;
};

class NcclOffer : public CommunicatorOffer {
 public:
  NcclOffer(const CommunicatorOptions& options, cudaStream_t stream, std::unique_ptr<GlooMesh> mesh)
      : options_(options), stream_(stream), address_(mesh->address()), mesh_(std::move(mesh)) {}

  const std::string& address() const override { return address_; }

  absl::StatusOr<std::unique_ptr<Communicator>> Join(
      const std::vector<std::string>& addresses) override {
    OCTAVO_CHECK(mesh_ != nullptr, "joined twice");
    auto communicator = std::make_unique<NcclCommunicator>(options_, stream_, std::move(mesh_));
    OCTAVO_RETURN_IF_ERROR(communicator->Found(addresses));
    return communicator;
  }

 private:
  const CommunicatorOptions options_;
  const cudaStream_t stream_;
  const std::string address_;
  std::unique_ptr<GlooMesh> mesh_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<CommunicatorOffer>> OfferNccl(const CommunicatorOptions& options,
                                                             cudaStream_t stream) {
  OCTAVO_ASSIGN_OR_RETURN(std::unique_ptr<GlooMesh> mesh, GlooMesh::Listen(options));
  return std::make_unique<NcclOffer>(options, stream, std::move(mesh));
}

void ChooseNcclInterface(const std::string& interface) {
  // "=": this very name, where NCCL would take all that begin with it.
  setenv("NCCL_SOCKET_IFNAME", absl::StrCat("=", interface).c_str(), /*overwrite=*/0);
}

}  // namespace octavo
