// Numbers as people write and read them: bytes, counts, durations, ages.
// Pure; from any thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace gpupool::client {

// "4096", "64KiB", "1.5 GiB", "2GB": a byte count. Ki, Mi, Gi, Ti are powers
// of 1024; k, M, G, T powers of 1000; any case; the "B" may be left out.
// InvalidArgument when it is none, negative, not whole or above 2^64-1.
absl::StatusOr<uint64_t> ParseByteSize(absl::string_view text);

// "512 B", "1.5 KiB", "2.0 GiB": three digits, powers of 1024.
std::string FormatBytes(uint64_t bytes);

// "950", "31.2k", "1.5M".
std::string FormatCount(double count);

// 1234567 -> "1,234,567".
std::string GroupDigits(uint64_t number);

// "0.8s", "42s", "3m05s", "2h07m", "5d03h".
std::string FormatSpan(absl::Duration duration);

// "30s", "2m", "1h30m", "2d", or a bare number of seconds; above 0.
absl::StatusOr<absl::Duration> ParseSpan(absl::string_view text);

}  // namespace gpupool::client
