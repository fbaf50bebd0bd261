// Named entries of words, before their values are checked: the common form of a
// flag's one-line text and a configuration file's list.
//
//   short:order=las,rank=10;big:most=2
//
// This text has two entries. The first has the name "short" and the words
// ("order", "las") and ("rank", "10").
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace gpupool::scheduler {

struct NamedWords {
  struct Word {
    std::string key;
    std::string value;
    std::string where = {};  // " at line 3", for errors; may be empty
  };
  std::string name;
  std::vector<Word> words = {};
  std::string where = {};  // the entry's place, as a word's
};

// Splits at ';', the first ':', ',' and '='. Ignores spaces around the parts
// and empty entries. Never fails: a part without '=' is a word without a value.
std::vector<NamedWords> SplitNamedWords(absl::string_view text);

}  // namespace gpupool::scheduler
