// Named entries of words, before anybody has looked at the values: the form
// that the one-line text of a flag and the list of a configuration file share.
//
//   short:order=las,rank=10;big:most=2
//
// stands for two entries. The first has the name "short" and the words
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
  std::string where = {};  // of the entry, as a word's
};

// Splits at ';', the first ':', ',' and '='. Spaces around the parts and empty
// entries mean nothing. Never fails: a part without '=' is a word without a
// value.
std::vector<NamedWords> SplitNamedWords(absl::string_view text);

}  // namespace gpupool::scheduler
