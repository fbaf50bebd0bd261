// Files with classes in tar archives, such as images and recordings.
// DatasetFormat.IMAGES says how files get their classes. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace gpupool::engine {

// A tar archive whose bytes the caller keeps alive.
struct SampleArchive {
  std::string name;  // for errors
  absl::string_view bytes;
};

// The kind of the files of a data set. Endings are in lower case.
struct SampleKind {
  absl::string_view noun;            // "image"
  absl::string_view formats;         // "JPEG and PNG"
  absl::string_view listed_endings;  // ".jpg, .jpeg or .png"
  absl::string_view example;         // "NAME.jpg"
  std::vector<std::string> endings;  // of files that are read
  std::vector<std::string> refused;  // of files of the kind that are not
};

struct Sample {
  std::string archive;  // its name
  std::string name;     // in the archive
  absl::string_view bytes;
  std::string label;  // the text of its class
};

// Returns the archive and the file, for errors.
std::string PlaceOf(const Sample& sample);

// The classes of a data set.
struct SampleClasses {
  std::vector<std::string> names;   // by number; empty: they have none
  std::vector<int64_t> of_samples;  // by sample
};

// At least one sample, in the order of the archives.
struct Samples {
  std::vector<Sample> samples;
  SampleClasses classes;
};

// Finds the files of the kind. Files of other kinds and hidden ones are left
// out. `classes` are the names of the classes in their order; empty: those that
// are found. The samples refer to the archives' bytes.
// INVALID_ARGUMENT, naming the archive and the file, if an archive is broken, a
// file has no class, is there twice or is of a refused kind, if there is no
// file, or if there is one class only.
absl::StatusOr<Samples> FindSamples(absl::Span<const SampleArchive> archives,
                                    const SampleKind& kind,
                                    const std::vector<std::string>& classes);

}  // namespace gpupool::engine
