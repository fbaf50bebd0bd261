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

#include "absl/status/status.h"
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

// Returns whether `name` has 1 to 128 letters, digits, '-', '_' and '.', and
// does not begin with '.'.
bool IsEntryName(absl::string_view name);

// Returns InvalidArgument with the entry, its place, what is wrong with it and
// what is allowed. `kind` is "queue" or "tenant".
absl::Status WrongEntry(absl::string_view kind, const NamedWords& entry,
                        absl::string_view what, absl::string_view allowed);

}  // namespace gpupool::scheduler
