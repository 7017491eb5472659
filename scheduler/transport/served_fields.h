// What a request of the public API may ask for of this version.
#ifndef OCTAVO_SCHEDULER_TRANSPORT_SERVED_FIELDS_H_
#define OCTAVO_SCHEDULER_TRANSPORT_SERVED_FIELDS_H_

#include "absl/status/status.h"
#include "octavo/v1/generation.pb.h"

namespace octavo {

// UNIMPLEMENTED naming every field whose value asks for what this version does not do, also fields
// that it does not know. A value that asks for nothing (n = 1, a penalty that is neutral) is fine.
absl::Status CheckServed(const v1::GenerateRequest& request);
absl::Status CheckServed(const v1::TokenizeRequest& request);

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_TRANSPORT_SERVED_FIELDS_H_
