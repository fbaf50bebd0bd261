// Limits of data sets of text. The daemon checks requests with them, and the
// engine what it reads.
#pragma once

#include <cstdint>

namespace gpupool::engine {

// Files of one data set, with its tokenizer.
inline constexpr int kMaxTextFiles = 64;
inline constexpr uint64_t kMaxTokenizerFileBytes = uint64_t{16} << 20;
// Numbers of a row that a text of a CSV file or of JSON lines becomes.
inline constexpr uint32_t kMaxTextLength = 65'536;
// The token of a table that stands for all words that it does not have.
inline constexpr const char* kUnknownToken = "<unk>";

}  // namespace gpupool::engine
