// Decides from one look at the folders to the next which models must be brought
// to the server. A model counts only when two looks in a row found the same
// files with the same sizes and times, so that a file that is still being
// written is not taken.
//
// Thread-safety: none.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "server/repository/folder_scan.h"

namespace gpupool::server {

class FolderHistory {
 public:
  // Maximum number of tries for the same files.
  static constexpr int kMaxTries = 10;

  // Takes the next look. Returns the models that look as in the look before
  // and that differ from what was brought last, or are to be tried again.
  std::vector<ModelFolder> Next(const RepositoryLook& look);
  // Returns those of `names` that the last two looks did not have. Returns none
  // when a root was missing, since its models may still be there.
  std::vector<std::string> Gone(const std::vector<std::string>& names) const;

  // Records that the model was brought as it is in `model`. With `try_again`
  // Next returns it again, until that makes kMaxTries tries.
  void SetBrought(const ModelFolder& model, bool try_again);
  // Returns true when a model is to be tried again.
  bool HasRetries() const;

 private:
  struct Brought {
    ModelFolder model;
    int failed_tries = 0;  // 0: not to be tried again
  };
  using Models = std::map<std::string, ModelFolder>;

  Models last_;
  Models before_;
  bool last_missed_root_ = false;
  bool missed_root_ = false;  // in one of the last two looks
  std::map<std::string, Brought> brought_;
};

}  // namespace gpupool::server
