// The seam between ranks of one group: what tensor parallelism exchanges inside a step.
#ifndef OCTAVO_WORKER_COMM_COMMUNICATOR_H_
#define OCTAVO_WORKER_COMM_COMMUNICATOR_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/backend/split_plan.h"
#include "worker/backend/tensor_view.h"

namespace octavo {

struct CommunicatorOptions {
  GroupPlace place;
  std::string interface = "lo";  // of the network, as `ip link` names it
  // Of one collective, and of founding the group: a rank that stays away for longer is lost.
  absl::Duration timeout = absl::Seconds(30);
};

// Collectives are called by every rank in the same order with the same shapes, on the thread that
// owns the backend; memory is the backend's, and they take their place among its ops: they may
// complete later, until Finish. An error (DEADLINE_EXCEEDED or UNAVAILABLE naming the rank that did
// not answer, or what Abort was given) ends the group: every call after it answers the same.
// Memory that a collective uses outlives the communicator or a Finish.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual GroupPlace place() const = 0;
  // data[i] becomes x_0[i] + x_1[i] + ..., with the same bits on every rank. Gloo's are added in
  // the order of ranks whatever `count` is, so that a sum has the same bits in every batch too
  // (det.2); NCCL's order is its own from three ranks on, as bits of the CUDA backend depend on the
  // batch.
  virtual absl::Status AllReduceSum(float* data, int64_t count) = 0;
  // `data` of rank 0 goes to all. Host memory.
  virtual absl::Status Broadcast(void* data, int64_t bytes) = 0;
  // Columns [begins[r], begins[r] + cols of rank r) of rank 0's `out` become rank r's `local`,
  // [rows, cols] without gaps. Rank 0's own columns are in `out` already; elsewhere only its shape
  // matters.
  virtual absl::Status GatherColumns(const Matrix& local, const std::vector<int64_t>& begins,
                                     const Matrix& out) = 0;
  // Returns once every rank has called it.
  virtual absl::Status Barrier() = 0;
  // Returns once the collectives called so far are complete.
  virtual absl::Status Finish() = 0;
  // Ends the group: a collective in progress returns `reason` at once. Thread-safe. REQUIRES: an
  // error.
  virtual void Abort(const absl::Status& reason) = 0;
};

// One rank's half of founding a group. Every founding needs a new one.
class CommunicatorOffer {
 public:
  virtual ~CommunicatorOffer() = default;

  // What the other ranks need to reach this one: opaque bytes.
  virtual const std::string& address() const = 0;
  // Collective: returns when all ranks of `addresses` ([rank]) are connected, at the latest after
  // the timeout. Once.
  virtual absl::StatusOr<std::unique_ptr<Communicator>> Join(
      const std::vector<std::string>& addresses) = 0;
};

}  // namespace octavo

#endif  // OCTAVO_WORKER_COMM_COMMUNICATOR_H_
