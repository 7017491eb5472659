#include "worker/comm/gloo_mesh.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <exception>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/check.h"
#include "common/status_macros.h"
#include "gloo/context.h"
#include "gloo/transport/context.h"
#include "gloo/transport/device.h"
#include "gloo/transport/tcp/device.h"
#include "gloo/transport/unbound_buffer.h"

namespace octavo {
namespace {

// Gloo waits five times a context's timeout for a connection.
constexpr int kConnectWaits = 5;
constexpr size_t kMaxAddressBytes = 1024;  // of one pair
// Of messages that nobody sends; rounds count from 1.
constexpr uint64_t kWatchSlot = 0;
constexpr std::chrono::hours kWatchTime(24 * 365);

// Rounded up: what ends by it has reached its deadline.
std::chrono::milliseconds ToChrono(absl::Duration duration) {
  return std::chrono::milliseconds(
      std::max<int64_t>(1, absl::ToInt64Milliseconds(absl::Ceil(duration, absl::Milliseconds(1)))));
}

// The addresses of one rank's pairs, [rank] with nothing for itself: two bytes of length, low byte
// first, and the bytes.
std::string JoinAddresses(const std::vector<std::vector<char>>& pairs) {
  std::string text;
  for (const std::vector<char>& pair : pairs) {
    text.push_back(static_cast<char>(pair.size() & 0xFF));
    text.push_back(static_cast<char>(pair.size() >> 8));
    text.append(pair.data(), pair.size());
  }
  return text;
}

// The address for `rank` among those of a peer.
absl::StatusOr<std::vector<char>> AddressFor(int32_t rank, int32_t peer, const std::string& text) {
  size_t at = 0;
  for (int32_t entry = 0;; ++entry) {
    if (at + 2 > text.size()) break;
    const size_t size = static_cast<uint8_t>(text[at]) |
                        static_cast<size_t>(static_cast<uint8_t>(text[at + 1])) << 8;
    at += 2;
    if (size > kMaxAddressBytes || at + size > text.size()) break;
    if (entry == rank && size > 0)
      return std::vector<char>(text.begin() + static_cast<std::ptrdiff_t>(at),
                               text.begin() + static_cast<std::ptrdiff_t>(at + size));
    at += size;
  }
  return absl::InvalidArgumentError(absl::StrCat("the communicator address of rank ", peer, ", ",
                                                 text.size(), " bytes, has none for rank ", rank));
}

// A context whose pairs are connected by addresses that the caller carries from rank to rank.
class MeshContext : public gloo::Context {
 public:
  MeshContext(const GroupPlace& place, std::shared_ptr<gloo::transport::Device> device,
              std::chrono::milliseconds timeout)
      : gloo::Context(place.rank, place.size) {
    device_ = std::move(device);
    transportContext_ = device_->createContext(place.rank, place.size);
    transportContext_->setTimeout(timeout);
    for (int peer = 0; peer < place.size; ++peer) {
      if (peer != place.rank) transportContext_->createPair(peer)->setLocalRank(0);
    }
  }
};

}  // namespace

struct GlooMesh::Links {
  std::unique_ptr<MeshContext> context;
};

struct GlooMesh::Transfer {
  std::unique_ptr<gloo::transport::UnboundBuffer> buffer;
  int32_t peer = 0;
  bool send = false;
};

// A byte that a peer never sends, waited for until the connection ends.
struct GlooMesh::Watch {
  int32_t peer = 0;
  char byte = 0;
  std::unique_ptr<gloo::transport::UnboundBuffer> buffer;
  std::thread thread;
};

GlooMesh::GlooMesh(const CommunicatorOptions& options)
    : options_(options), links_(std::make_unique<Links>()) {}

GlooMesh::~GlooMesh() {
  {
    absl::MutexLock lock(&mutex_);
    closing_ = true;
  }
  for (const std::unique_ptr<Watch>& watch : watches_) {
    watch->buffer->abortWaitRecv();
    watch->thread.join();
  }
}

void GlooMesh::StartWatches() {
  for (int32_t peer = 0; peer < options_.place.size; ++peer) {
    if (peer == options_.place.rank) continue;
    auto watch = std::make_unique<Watch>();
    watch->peer = peer;
    watch->buffer = links_->context->createUnboundBuffer(&watch->byte, 1);
    watch->buffer->recv(peer, kWatchSlot);
    watch->thread = std::thread([this, seen = watch.get()] { RunWatch(*seen); });
    watches_.push_back(std::move(watch));
  }
}

void GlooMesh::RunWatch(Watch& watch) {
  try {
    watch.buffer->waitRecv(nullptr, kWatchTime);
  } catch (const std::exception& error) {
    const absl::Status lost = LostRank(watch.peer, absl::InfiniteFuture(), error.what());
    {
      absl::MutexLock lock(&mutex_);
      // A wait that ends by its deadline ends all connections, and knows better whose fault it is.
      if (closing_ || !failed_.ok() || !lost_.ok() || absl::Now() >= deadline_) return;
      lost_ = lost;
      AbortWait();
    }
    if (sink_) sink_(lost);
  }
}

absl::StatusOr<std::unique_ptr<GlooMesh>> GlooMesh::Listen(const CommunicatorOptions& options) {
  OCTAVO_RETURN_IF_ERROR(Validate(options.place));
  auto mesh = absl::WrapUnique(new GlooMesh(options));
  try {
    gloo::transport::tcp::attr attributes;
    attributes.iface = options.interface;
    mesh->links_->context =
        std::make_unique<MeshContext>(options.place, gloo::transport::tcp::CreateDevice(attributes),
                                      ToChrono(options.timeout / kConnectWaits));
    std::vector<std::vector<char>> pairs(static_cast<size_t>(options.place.size));
    for (int peer = 0; peer < options.place.size; ++peer) {
      if (peer != options.place.rank)
        pairs[static_cast<size_t>(peer)] = mesh->links_->context->getPair(peer)->address().bytes();
    }
    mesh->address_ = JoinAddresses(pairs);
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat("cannot listen for other ranks on interface ",
                                                   options.interface, ": ", error.what()));
  }
  return mesh;
}

absl::Status GlooMesh::Connect(const std::vector<std::string>& addresses, LossSink sink) {
  const auto [rank, size] = options_.place;
  sink_ = std::move(sink);
  if (static_cast<int64_t>(addresses.size()) != size)
    return absl::InvalidArgumentError(
        absl::StrCat(addresses.size(), " communicator addresses for ", size, " ranks"));
  const absl::Time deadline = absl::Now() + options_.timeout;
  for (int32_t peer = 0; peer < size; ++peer) {
    if (peer == rank) continue;
    OCTAVO_ASSIGN_OR_RETURN(const std::vector<char> address,
                            AddressFor(rank, peer, addresses[static_cast<size_t>(peer)]));
    try {
      links_->context->getPair(peer)->connect(address);
    } catch (const std::exception& error) {
      return Fail(LostRank(peer, deadline, error.what()));
    }
  }
  try {
    StartWatches();
  } catch (const std::exception& error) {
    return Fail(absl::UnavailableError(absl::StrCat("another rank is gone: ", error.what())));
  }
  return absl::OkStatus();
}

absl::Status GlooMesh::Exchange(const std::vector<MeshMessage>& sends,
                                const std::vector<MeshMessage>& receives, absl::Time latest) {
  {
    absl::MutexLock lock(&mutex_);
    OCTAVO_RETURN_IF_ERROR(failed_);
    OCTAVO_RETURN_IF_ERROR(lost_);
  }
  const absl::Time deadline = std::min(absl::Now() + options_.timeout, latest);
  ++round_;
  // Gloo matches messages by slot; one slot a round keeps rounds apart.
  std::deque<Transfer> transfers;
  const auto begin = [&](const MeshMessage& message, bool send) -> absl::Status {
    if (message.bytes == 0) return absl::OkStatus();
    Transfer& transfer = transfers.emplace_back();
    transfer.peer = message.peer;
    transfer.send = send;
    try {
      transfer.buffer =
          links_->context->createUnboundBuffer(message.data, static_cast<size_t>(message.bytes));
      if (send) {
        transfer.buffer->send(message.peer, round_);
      } else {
        transfer.buffer->recv(message.peer, round_);
      }
    } catch (const std::exception& error) {
      return LostRank(message.peer, deadline, error.what());
    }
    return absl::OkStatus();
  };
  for (const MeshMessage& message : receives)
    if (absl::Status status = begin(message, false); !status.ok()) return Fail(status);
  for (const MeshMessage& message : sends)
    if (absl::Status status = begin(message, true); !status.ok()) return Fail(status);
  for (Transfer& transfer : transfers)
    if (absl::Status status = Wait(transfer, deadline); !status.ok()) return Fail(status);
  return absl::OkStatus();
}

absl::Status GlooMesh::Wait(Transfer& transfer, absl::Time deadline) {
  {
    absl::MutexLock lock(&mutex_);
    OCTAVO_RETURN_IF_ERROR(failed_);
    OCTAVO_RETURN_IF_ERROR(lost_);
    waiting_ = &transfer;
    deadline_ = deadline;
  }
  absl::Status status;
  try {
    // False after Abort, which also counts when it came before the wait.
    const auto left = ToChrono(deadline - absl::Now());
    const bool done = transfer.send ? transfer.buffer->waitSend(nullptr, left)
                                    : transfer.buffer->waitRecv(nullptr, left);
    if (!done) status = absl::CancelledError("aborted");
  } catch (const std::exception& error) {
    status = LostRank(transfer.peer, deadline, error.what());
  }
  absl::MutexLock lock(&mutex_);
  waiting_ = nullptr;
  deadline_ = absl::InfiniteFuture();
  // Before a watch can take the connections that this closed for ranks that are gone.
  if (failed_.ok() && !absl::IsCancelled(status)) failed_ = status;
  if (!failed_.ok()) return failed_;
  return absl::IsCancelled(status) ? lost_ : status;
}

void GlooMesh::Abort(const absl::Status& reason) {
  OCTAVO_CHECK(!reason.ok());
  absl::MutexLock lock(&mutex_);
  if (failed_.ok()) failed_ = reason;
  AbortWait();
}

void GlooMesh::AbortWait() {
  if (waiting_ == nullptr) return;
  if (waiting_->send) {
    waiting_->buffer->abortWaitSend();
  } else {
    waiting_->buffer->abortWaitRecv();
  }
}

absl::Status GlooMesh::Fail(const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  if (failed_.ok()) failed_ = status;
  return failed_;
}

absl::Status GlooMesh::LostRank(int32_t peer, absl::Time deadline, const char* what) const {
  if (absl::Now() >= deadline)
    return absl::DeadlineExceededError(absl::StrCat("rank ", peer, " of ", options_.place.size,
                                                    " did not answer within ",
                                                    absl::FormatDuration(options_.timeout)));
  return absl::UnavailableError(
      absl::StrCat("rank ", peer, " of ", options_.place.size, " is gone: ", what));
}

}  // namespace octavo
