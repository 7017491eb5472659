// Reads request traces in the formats that production services published.
#ifndef OCTAVO_TOOLS_SIMULATE_TRACE_READER_H_
#define OCTAVO_TOOLS_SIMULATE_TRACE_READER_H_

#include <cstdint>
#include <istream>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tools/simulate/trace.h"

namespace octavo::simulate {

// Azure Public Dataset: a header line that names the columns TIMESTAMP (date and time, or seconds),
// ContextTokens and GeneratedTokens, in any order and among others.
absl::StatusOr<Trace> ReadAzureCsv(std::istream& in, absl::string_view name);

// Mooncake: one JSON object a line with timestamp (ms), input_length, output_length and, optional,
// hash_ids.
absl::StatusOr<Trace> ReadMooncakeJsonl(std::istream& in, absl::string_view name);

// Chooses by the first character of the file: '{' begins JSON lines, anything else a CSV header.
absl::StatusOr<Trace> ReadTraceFile(absl::string_view path);

// `count` requests with the mean lengths of ShareGPT in the PagedAttention paper (SOSP'23, section
// 6.1): 161 prompt and 338 output tokens, log-normal, prompt and output at most 1,024 each as
// there (section 6.2). No arrival times.
Trace DrawSharegptLike(int64_t count, uint64_t seed);

}  // namespace octavo::simulate

#endif  // OCTAVO_TOOLS_SIMULATE_TRACE_READER_H_
