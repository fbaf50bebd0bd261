// Holds what a CSV reader found in one column. A value.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace gpupool::engine {

// Rows of a table whose values its description shows.
inline constexpr uint64_t kShownRows = 3;

struct CsvColumnFacts {
  std::string name;
  bool label = false;
  bool text = false;
  uint64_t first_number = 0;  // place in the row of features, or in the label
  double minimum = std::numeric_limits<double>::infinity();
  double maximum = -std::numeric_limits<double>::infinity();
  double sum = 0;
  uint64_t numbers = 0;  // cells with a number; range and sum are theirs
  uint64_t missing = 0;  // cells that were filled in
  std::vector<std::string> categories;  // by index; "": missing cells
  std::vector<uint64_t> category_rows;
  std::vector<std::string> first_values;  // of the first kShownRows, cut
};

}  // namespace gpupool::engine
