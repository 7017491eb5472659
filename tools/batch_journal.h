// What a batch has written already, so that a rerun goes on where the last one ended.
#ifndef OCTAVO_TOOLS_BATCH_JOURNAL_H_
#define OCTAVO_TOOLS_BATCH_JOURNAL_H_

#include <cstdio>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace octavo::tools {

// Appends answers to a file, or to standard output when the path is empty. Beside the file,
// PATH.run keeps the run id that makes request ids unique. Not thread-safe.
class BatchJournal {
 public:
  // Reads what is there; an unfinished last line, and answers that another try may
  // mend, are taken out. FAILED_PRECONDITION when the file is something else.
  static absl::StatusOr<BatchJournal> Open(const std::string& path);

  BatchJournal(BatchJournal&& other) noexcept;
  BatchJournal& operator=(BatchJournal&&) = delete;
  ~BatchJournal();

  const std::string& run_id() const { return run_id_; }
  // Answered before, and not with an error that another try may mend.
  bool Answered(const std::string& label) const { return answered_.count(label) > 0; }
  size_t num_answered() const { return answered_.size(); }

  // Writes one line and flushes it. DATA_LOSS with the system's reason when the disk refuses.
  absl::Status Append(absl::string_view line);

 private:
  BatchJournal() = default;

  std::string path_;
  std::string run_id_;
  std::set<std::string> answered_;
  std::FILE* file_ = nullptr;
};

}  // namespace octavo::tools

#endif  // OCTAVO_TOOLS_BATCH_JOURNAL_H_
