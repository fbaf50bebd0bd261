// A dataset as readers make it and the sampler draws from it. A value that
// shares its bytes; several threads may read it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/data/column.h"
#include "engine/data/csv/column_facts.h"

namespace gpupool::engine {

// Facts about the recordings of a dataset. Lengths are samples of one channel.
struct AudioFacts {
  uint32_t rate = 0;  // samples a second
  uint32_t channels = 0;
  uint64_t shortest = 0;
  uint64_t longest = 0;
  uint64_t cut_rows = 0;
  uint64_t padded_rows = 0;
};

// Facts about the tokens of a text.
struct TextFacts {
  enum class Tokenizer : uint8_t {
    kBytes,
    kWords,
    // Kinds of SentencePiece models.
    kUnigram,
    kBpe,
    kWordPieces,
    kCharacters,
  };
  Tokenizer tokenizer = Tokenizer::kBytes;
  uint32_t vocabulary = 0;         // number of different tokens
  std::vector<std::string> first;  // texts of the first tokens
};

struct Table {
  uint64_t rows = 0;  // of every column
  // At least one each, by name. All numbers are finite as float32, or fit
  // int64.
  std::vector<Column> inputs;
  std::vector<Column> targets;
  // CSV only: the columns that are not left out, in the order of the file.
  std::vector<CsvColumnFacts> csv_columns;
  uint64_t dropped_rows = 0;  // CSV only, with MissingRule::kDropRow
  // IMAGES, AUDIO and words of TEXT only: the names of the classes by number,
  // if they have names.
  std::vector<std::string> class_names;
  std::optional<AudioFacts> audio;  // AUDIO only
  std::optional<TextFacts> text;    // TEXT only
  bool random = false;              // made by RandomTable

  const Column& features() const { return inputs.front(); }
  const Column& labels() const { return targets.front(); }
  // Returns the bytes that the table takes in host memory.
  uint64_t host_bytes() const;
  // Returns DATA_LOSS if a mapped file has become too short.
  absl::Status CheckWhole() const;
};

// The bounds of a reader's result.
struct ReadLimits {
  // The most bytes of a table that is unpacked: in memory or on disk.
  uint64_t max_table_bytes = uint64_t{16} << 30;
  // The most bytes of a table in memory. A larger one is mapped: from its file
  // where that holds the numbers as they are, else from an unpacked copy.
  uint64_t memory_bytes = uint64_t{1} << 30;
  // Folder for such copies. Empty: they stay in memory.
  std::string unpack_dir;
  // The dataset is new, so that forms are refused in which mistakes hide.
  // Stored datasets may have them.
  bool is_new = false;
  // Path of gpupool-tokenizer. Empty: beside this program.
  std::string tokenizer_program;
};

// Returns the product of `rows` and `row_bytes`. RESOURCE_EXHAUSTED above the
// limit or on overflow.
absl::StatusOr<uint64_t> CheckedTableBytes(uint64_t rows, uint64_t row_bytes,
                                           const ReadLimits& limits);

// Returns the product of the dimensions. INVALID_ARGUMENT when one is below 1
// or the product exceeds 2^40.
absl::StatusOr<uint64_t> CheckedElementCount(
    const std::vector<int64_t>& dimensions);

}  // namespace gpupool::engine
