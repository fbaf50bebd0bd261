// Says how to read a CSV file, or JSON lines. A value.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace gpupool::engine {

// Says what happens to a row with a missing cell, as DatasetLayout.Missing.
enum class MissingRule : uint8_t { kRefuse, kMean, kZero, kDropRow };

// Says what a text column of the features becomes, as DatasetLayout.Text.
enum class TextRule : uint8_t { kIndex, kOneHot, kBytes };

struct CsvOptions {
  int32_t label_column = -1;  // negative counts from the end
  // Columns of a label of several numbers, in order: those by name, which need
  // has_header, before those by number. They replace label_column.
  std::vector<int32_t> label_columns;
  std::vector<std::string> label_names;
  bool has_header = false;
  // The header must have a name for each column if options go by name.
  bool whole_header = false;
  // The columns are the keys of objects, for errors. Names are then known as
  // with has_header, which must be set.
  bool json_lines = false;
  MissingRule missing = MissingRule::kRefuse;
  TextRule text = TextRule::kIndex;
  uint32_t text_length = 0;  // with kBytes: numbers of a text, at least 1
  // By the header's name, or else by number.
  std::vector<std::string> text_columns;
  std::vector<std::string> skipped_columns;
  // The categories of columns, by index. Others are refused there.
  std::map<std::string, std::vector<std::string>> categories;
};

}  // namespace gpupool::engine
