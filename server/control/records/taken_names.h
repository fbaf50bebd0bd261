// Errors for names of models and data sets, which all tenants share.
//
// Thread-safety: any thread; no state.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace gpupool::server {

// Returns NotFound for a model that does not exist, and for one of another
// tenant: both have this text.
inline absl::Status NoSuchModel(absl::string_view model) {
  return absl::NotFoundError(absl::StrCat(
      "model \"", model, "\" does not exist; see `gpupool models list`"));
}

// Returns the same for a dataset.
inline absl::Status NoSuchDataset(absl::string_view dataset) {
  return absl::NotFoundError(
      absl::StrCat("dataset \"", dataset,
                   "\" does not exist; upload it with `gpupool datasets "
                   "upload` or see `gpupool datasets list`"));
}

// Returns AlreadyExists for a name that another tenant has. It says no more
// about what has the name.
inline absl::Status ModelNameTaken(absl::string_view model) {
  return absl::AlreadyExistsError(
      absl::StrCat("the model name \"", model,
                   "\" is taken on this server; choose another name"));
}
inline absl::Status DatasetNameTaken(absl::string_view dataset) {
  return absl::AlreadyExistsError(
      absl::StrCat("the dataset name \"", dataset,
                   "\" is taken on this server; choose another name"));
}

}  // namespace gpupool::server
