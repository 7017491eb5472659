// The core's reports about requests as messages of the Admin service.
#ifndef OCTAVO_SCHEDULER_TRANSPORT_REQUEST_INFO_H_
#define OCTAVO_SCHEDULER_TRANSPORT_REQUEST_INFO_H_

#include <string>

#include "absl/time/time.h"
#include "octavo/v1/admin.pb.h"
#include "scheduler/core/request_report.h"

namespace octavo {

// `name`: the client's request id.
void FillRequestInfo(const RequestReport& report, const std::string& name, absl::Time now,
                     v1::RequestInfo* out);

// `behind` and `producer`: names of the requests that the report names; empty when they have ended
// meanwhile. Does not fill out->request.
void FillExplanation(const WaitReport& report, const std::string& behind,
                     const std::string& producer, v1::ExplainRequestResponse* out);

void FillBlockTable(const ChoiceTable& table, v1::ChoiceBlockTable* out);

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_TRANSPORT_REQUEST_INFO_H_
