// A file mapped read-only into memory.
#ifndef OCTAVO_COMMON_CHECKPOINT_MAPPED_FILE_H_
#define OCTAVO_COMMON_CHECKPOINT_MAPPED_FILE_H_

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace octavo {

// Immutable; safe to read from any thread. The pages are the page cache's: several processes that
// map one model share its memory. The file must not be cut short while it is mapped (the kernel
// answers a read past the new end with SIGBUS); replacing it by rename is safe.
class MappedFile {
 public:
  // NOT_FOUND or PERMISSION_DENIED; INVALID_ARGUMENT for what is not a regular file.
  static absl::StatusOr<std::unique_ptr<MappedFile>> Open(const std::string& path);

  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  const std::string& path() const { return path_; }
  // Starts at a page boundary; empty for an empty file.
  std::span<const std::byte> bytes() const { return bytes_; }
  absl::string_view text() const {
    return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
  }

 private:
  MappedFile(std::string path, std::span<const std::byte> bytes)
      : path_(std::move(path)), bytes_(bytes) {}

  std::string path_;
  std::span<const std::byte> bytes_;
};

}  // namespace octavo

#endif  // OCTAVO_COMMON_CHECKPOINT_MAPPED_FILE_H_
