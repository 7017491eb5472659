// Expectations about refusals: the code, and every phrase that the message must carry.
#ifndef OCTAVO_TESTS_COMMON_CHECKPOINT_STATUS_TESTING_H_
#define OCTAVO_TESTS_COMMON_CHECKPOINT_STATUS_TESTING_H_

#include <gtest/gtest.h>

#include <initializer_list>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace octavo {

inline void ExpectRefused(const absl::Status& status, absl::StatusCode code,
                          std::initializer_list<absl::string_view> phrases) {
  EXPECT_EQ(status.code(), code) << status;
  for (absl::string_view phrase : phrases) {
    EXPECT_TRUE(absl::StrContains(status.message(), phrase))
        << "lacks " << phrase << ": " << status;
  }
}

}  // namespace octavo

#endif  // OCTAVO_TESTS_COMMON_CHECKPOINT_STATUS_TESTING_H_
