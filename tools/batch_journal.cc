#include "tools/batch_journal.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <random>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace octavo::tools {
namespace {

absl::Status SystemError(absl::string_view what, const std::string& path) {
  return absl::DataLossError(absl::StrCat(what, " ", path, ": ", std::strerror(errno)));
}

std::string NewRunId() {
  std::random_device random;
  return absl::StrCat(absl::Hex(random(), absl::kZeroPad8), absl::Hex(random(), absl::kZeroPad8));
}

bool ReadFile(const std::string& path, std::string* text) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return false;
  std::stringstream buffer;
  buffer << in.rdbuf();
  *text = buffer.str();
  return true;
}

// Whole or not at all: a crash leaves the old file or the new one.
absl::Status Replace(const std::string& path, const std::string& text) {
  const std::string next = path + ".next";
  std::ofstream out(next, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  if (!out) return SystemError("write", next);
  if (std::rename(next.c_str(), path.c_str()) != 0) return SystemError("rename", next);
  return absl::OkStatus();
}

bool WorthRetrying(const nlohmann::json& line) {
  if (!line.contains("error") || !line["error"].is_object()) return false;
  const std::string code = line["error"].value("code", "");
  return code == "UNAVAILABLE" || code == "RESOURCE_EXHAUSTED" || code == "CANCELLED" ||
         code == "DEADLINE_EXCEEDED" || code == "INTERNAL" || code == "UNKNOWN";
}

}  // namespace

absl::StatusOr<BatchJournal> BatchJournal::Open(const std::string& path) {
  BatchJournal journal;
  journal.path_ = path;
  if (path.empty()) {
    journal.run_id_ = NewRunId();
    journal.file_ = stdout;
    return journal;
  }
  std::string text;
  if (ReadFile(path, &text)) {
    const size_t whole = text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1;
    std::string kept;
    std::istringstream lines(text.substr(0, whole));
    for (std::string line; std::getline(lines, line);) {
      const auto json = nlohmann::json::parse(line, nullptr, false);
      if (!json.is_object() || !json.contains("id") || !json["id"].is_string())
        return absl::FailedPreconditionError(absl::StrCat(
            path, " has a line that is no answer of a batch; choose another --output"));
      if (WorthRetrying(json)) continue;
      journal.answered_.insert(json["id"].get<std::string>());
      absl::StrAppend(&kept, line, "\n");
    }
    if (kept != text) {
      if (absl::Status status = Replace(path, kept); !status.ok()) return status;
    }
  }
  const std::string run_path = path + ".run";
  if (!ReadFile(run_path, &journal.run_id_) || journal.run_id_.empty()) {
    journal.run_id_ = NewRunId();
    std::ofstream out(run_path, std::ios::binary | std::ios::trunc);
    out << journal.run_id_;
    if (!out.flush()) return SystemError("write", run_path);
  }
  journal.file_ = std::fopen(path.c_str(), "ab");
  if (journal.file_ == nullptr) return SystemError("open", path);
  return journal;
}

BatchJournal::BatchJournal(BatchJournal&& other) noexcept
    : path_(std::move(other.path_)),
      run_id_(std::move(other.run_id_)),
      answered_(std::move(other.answered_)),
      file_(std::exchange(other.file_, nullptr)) {}

BatchJournal::~BatchJournal() {
  if (file_ != nullptr && file_ != stdout) std::fclose(file_);
}

absl::Status BatchJournal::Append(absl::string_view line) {
  const bool written = std::fwrite(line.data(), 1, line.size(), file_) == line.size() &&
                       std::fputc('\n', file_) != EOF && std::fflush(file_) == 0;
  if (!written) return SystemError("write", path_.empty() ? "standard output" : path_);
  return absl::OkStatus();
}

}  // namespace octavo::tools
