// Early return for absl::Status and absl::StatusOr, which the Abseil of
// Debian 12 does not ship.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define GPUPOOL_CONCAT_INNER(a, b) a##b
#define GPUPOOL_CONCAT(a, b) GPUPOOL_CONCAT_INNER(a, b)

// Returns from the enclosing function when `expression` is not OK.
#define RETURN_IF_ERROR(expression)                           \
  do {                                                        \
    if (absl::Status status_ = (expression); !status_.ok()) { \
      return status_;                                         \
    }                                                         \
  } while (false)

// ASSIGN_OR_RETURN(auto value, Function()) declares or assigns `value`, or
// returns Function's error.
#define ASSIGN_OR_RETURN(left, expression) \
  ASSIGN_OR_RETURN_INNER(GPUPOOL_CONCAT(status_or_, __LINE__), left, expression)
#define ASSIGN_OR_RETURN_INNER(name, left, expression) \
  auto name = (expression);                            \
  if (!name.ok()) return std::move(name).status();     \
  left = *std::move(name)
