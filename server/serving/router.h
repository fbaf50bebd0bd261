// Turns a name and an optional version from a request into a handle of a
// version that is ready, or says why not in the words that clients match on.
//
// Thread-safety: any thread. A look-up that succeeds never blocks; one that
// fails asks the catalogue.
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
  // All stored versions of a model, served or not; NotFound for a name that
  // nobody knows. Any thread.
  using Catalogue =
      std::function<absl::StatusOr<v1::Model>(absl::string_view model)>;

  // `registry` outlives the router.
  Router(const ModelRegistry* registry, Catalogue catalogue);

  // `version` empty: the newest that is ready.
  //   InvalidArgument  `version` is not a whole number from 1
  //   NotFound         unknown model, unknown version, or no version is
  //                    served or about to be
  //   Unavailable      the version, or all of the model's, are not ready now
  absl::StatusOr<VersionHandle> Route(absl::string_view model,
                                      absl::string_view version) const;

 private:
  absl::Status WhyNot(absl::string_view model, uint64_t version) const;

  const ModelRegistry* const registry_;
  const Catalogue catalogue_;
};

// InvalidArgument unless `text` is a whole number from 1.
absl::StatusOr<uint64_t> ParseVersion(absl::string_view text);

}  // namespace gpupool::server
