// Python's pickle format, protocol 2, limited to what a memory snapshot needs
// and PyTorch's viewers read: dictionaries, lists, pairs, whole numbers,
// strings and booleans.
//
//   pickle = 0x80 0x02 value "."
//   value  = "}" "(" { key value } "u"        dictionary
//          | "]" { "(" { value } "e" }        list, 1000 values at a time: the
//                                             viewer spreads a batch into one
//                                             call
//          | number number 0x86               pair
//          | number | string | 0x88 | 0x89    (true, false)
//   number = "K" byte | "M" 2 bytes | "J" 4 bytes | 0x8a length bytes
//   string = "X" 4 bytes of length, UTF-8
//   All numbers are little-endian.
//
// Thread-safety: none. Ownership: the text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace gpupool::engine {

class PickleWriter {
 public:
  PickleWriter();

  void BeginDictionary();
  void EndDictionary();
  void BeginList();
  void EndList();
  // Writes a key. Must come before each value of a dictionary.
  void Key(absl::string_view name);
  void Number(uint64_t value);
  void Pair(uint64_t first, uint64_t second);
  void Boolean(bool value);
  // Writes a text; bytes that are not UTF-8 become question marks.
  void String(absl::string_view text);

  // Returns the whole pickle, which must be one finished value.
  std::string Take();

 private:
  struct Container {
    bool is_list = false;
    int batch = 0;  // values since the last mark
  };
  void BeforeValue();
  void WriteNumber(uint64_t value);
  void WriteString(absl::string_view text);

  std::string bytes_;
  std::vector<Container> open_;
};

}  // namespace gpupool::engine
