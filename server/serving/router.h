// Turns a request's model name and optional version into a handle of a ready
// version, or into an error whose text clients match on.
//
// Thread-safety: any thread. A successful look-up never blocks. A failed one
// asks the catalogue.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gpupool/v1/model.pb.h"
#include "server/serving/model_registry.h"

namespace gpupool::server {

class Router {
 public:
  // Returns all stored versions of a model, served or not; NotFound for an
  // unknown name. May be called on any thread.
  using Catalogue =
      std::function<absl::StatusOr<v1::Model>(absl::string_view model)>;

  // `registry` must outlive the router.
  Router(const ModelRegistry* registry, Catalogue catalogue);

  // Returns the version; for an empty `version` the newest ready one. Errors:
  //   * InvalidArgument: `version` is not a whole number from 1
  //   * NotFound: unknown model or version, or none is served or about to be
  //   * Unavailable: the version, or all of the model's, are not ready now
  absl::StatusOr<VersionHandle> Route(absl::string_view model,
                                      absl::string_view version) const;

 private:
  absl::Status WhyNot(absl::string_view model, uint64_t version) const;

  const ModelRegistry* const registry_;
  const Catalogue catalogue_;
};

// Parses a whole number from 1, or returns InvalidArgument.
absl::StatusOr<uint64_t> ParseVersion(absl::string_view text);

}  // namespace gpupool::server
