// Owned device memory. All device memory of a worker is held by Buffers.
#ifndef OCTAVO_WORKER_BACKEND_BUFFER_H_
#define OCTAVO_WORKER_BACKEND_BUFFER_H_

#include <cstddef>
#include <functional>
#include <utility>

namespace octavo {

class Buffer {
 public:
  using Deleter = std::function<void(std::byte* data, size_t bytes)>;

  Buffer() = default;
  Buffer(std::byte* data, size_t bytes, Deleter deleter)
      : data_(data), bytes_(bytes), deleter_(std::move(deleter)) {}
  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    if (this != &other) {
      Free();
      data_ = std::exchange(other.data_, nullptr);
      bytes_ = std::exchange(other.bytes_, 0);
      deleter_ = std::exchange(other.deleter_, nullptr);
    }
    return *this;
  }
  ~Buffer() { Free(); }

  std::byte* data() const { return data_; }
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }
  size_t bytes() const { return bytes_; }

 private:
  void Free() {
    if (data_ != nullptr && deleter_) deleter_(data_, bytes_);
    data_ = nullptr;
  }

  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
  Deleter deleter_;
};

}  // namespace octavo

#endif  // OCTAVO_WORKER_BACKEND_BUFFER_H_
