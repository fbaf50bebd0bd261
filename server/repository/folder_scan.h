// Looks at the folders of model repositories:
//
//   DIR/NAME/VERSION/model.onnx     and the files with its external data
//   DIR/NAME/VERSION/               empty, if the model is an ensemble
//   DIR/NAME/config.pbtxt           optional
//   DIR/NAME/initial_state/         files that config.pbtxt names
//   DIR/NAME/labels.txt             a file of any name that config.pbtxt names
//
// Nothing is read but names and stamps of files. Everything else that is there
// is left out, with a remark for the log.
//
// Pure but for the file system; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "server/repository/confined_folder.h"

namespace gpupool::server {

struct VersionFolder {
  uint64_t number = 0;
  // Regular files that are not empty, by name; model.onnx is one of them.
  std::vector<FileStamp> files;
  bool operator==(const VersionFolder&) const = default;
};

struct ModelFolder {
  std::string root;  // DIR
  std::string name;
  std::optional<FileStamp> config;
  // Reason why config.pbtxt cannot be read; the model must not be served as if
  // it had none. Empty: it can, or there is none.
  std::string config_error;
  std::vector<VersionFolder> versions;  // rising
  // Numbers of folders of versions in which there is nothing. Rising.
  std::vector<uint64_t> empty_versions = {};
  // Files in the folder initial_state, by name.
  std::vector<FileStamp> initial_states = {};
  // Other files beside config.pbtxt, which may name them as label_filename, by
  // name.
  std::vector<FileStamp> labels = {};
  bool operator==(const ModelFolder&) const = default;
};

struct RepositoryLook {
  std::vector<ModelFolder> models;  // by name
  // One line for each entry that was left out: "DIR/a b: ...".
  std::vector<std::string> remarks;
  // Roots that could not be looked at. Their models are not in `models`, but
  // may still be there.
  std::vector<std::string> missing_roots;
};

inline constexpr char kModelFileName[] = "model.onnx";
inline constexpr char kConfigFileName[] = "config.pbtxt";
inline constexpr char kInitialStateFolder[] = "initial_state";

// Returns the models of all roots. A name that two roots have is taken from the
// first one. Folders whose names begin with a dot are left out without a
// remark.
RepositoryLook LookAtRepositories(absl::Span<const std::string> roots);

}  // namespace gpupool::server
