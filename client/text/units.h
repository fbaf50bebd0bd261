// Parses and prints numbers for people: bytes, counts, durations, ages. Pure;
// from any thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace gpupool::client {

// Parses a byte count: "4096", "64KiB", "1.5 GiB", "2GB". Ki, Mi, Gi, Ti are
// powers of 1024, and k, M, G, T powers of 1000, in any case. The "B" may be
// left out. InvalidArgument if the text is something else, negative, not a
// whole number of bytes, or above 2^64-1.
absl::StatusOr<uint64_t> ParseByteSize(absl::string_view text);

// Returns "512 B", "1.5 KiB", "2.0 GiB": three digits, powers of 1024.
std::string FormatBytes(uint64_t bytes);

// Returns "950", "31.2k", "1.5M".
std::string FormatCount(double count);

// Returns a loss with four significant digits: "0.05123", "1.395".
std::string FormatLoss(double loss);

// Returns "1,234,567" for 1234567.
std::string GroupDigits(uint64_t number);

// Returns "0.8s", "42s", "3m05s", "2h07m", "5d03h".
std::string FormatSpan(absl::Duration duration);

// Parses "30s", "2m", "1h30m", "2d", or a bare number of seconds. The duration
// must be above 0.
absl::StatusOr<absl::Duration> ParseSpan(absl::string_view text);

}  // namespace gpupool::client
