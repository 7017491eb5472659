// Device memory of a test: filled from host values, read back after a synchronisation.
#ifndef OCTAVO_TESTS_EMULATION_DEVICE_ARRAY_H_
#define OCTAVO_TESTS_EMULATION_DEVICE_ARRAY_H_

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

namespace octavo::emulation {

template <class T>
class DeviceArray {
 public:
  // Uninitialised: NaN in every float format.
  explicit DeviceArray(size_t size) : size_(size) {
    EXPECT_EQ(cudaMalloc(reinterpret_cast<void**>(&data_), size * sizeof(T)), cudaSuccess);
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) { Set(values); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() { cudaFree(data_); }

  T* data() const { return data_; }
  size_t size() const { return size_; }

  void Set(const std::vector<T>& values) {
    EXPECT_EQ(cudaMemcpy(data_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice),
              cudaSuccess);
    // A card may still be copying what was in pageable memory, and streams do not wait for that.
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }
  // REQUIRES: the work that writes it is complete.
  std::vector<T> Get() const {
    std::vector<T> values(size_);
    EXPECT_EQ(cudaMemcpy(values.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost),
              cudaSuccess);
    return values;
  }

 private:
  T* data_ = nullptr;
  size_t size_;
};

// A stream as the worker uses them: one that the default stream does not wait for.
class DeviceStream {
 public:
  DeviceStream() {
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
  }
  DeviceStream(const DeviceStream&) = delete;
  DeviceStream& operator=(const DeviceStream&) = delete;
  ~DeviceStream() { cudaStreamDestroy(stream_); }

  operator cudaStream_t() const { return stream_; }  // NOLINT: it stands for the handle
  // What went wrong, empty when nothing did.
  std::string Synchronize() const {
    const cudaError_t error = cudaStreamSynchronize(stream_);
    return error == cudaSuccess ? "" : cudaGetErrorString(error);
  }

 private:
  cudaStream_t stream_ = nullptr;
};

}  // namespace octavo::emulation

#endif  // OCTAVO_TESTS_EMULATION_DEVICE_ARRAY_H_
