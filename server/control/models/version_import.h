// Private to server/control: the steps by which files become a version that may
// be created.
//
// Thread-safety: any thread; see context.h.
#pragma once

#include <cstdint>

#include "gpupool/v1/model.pb.h"
#include "server/control/calls/callback.h"
#include "server/control/calls/context.h"

namespace gpupool::server {

// Returns the bytes of the files that are uploaded for the model: those that
// the header announces, and those that its spec names, as far as they are
// stored.
uint64_t UploadedBytes(const BlobStore& blobs,
                       const v1::UploadModelRequest::Header& model);

// Lets the meta worker plan the model and store it as a checkpoint. Answers
// with a row that is not stored yet: it has no id and no number.
void PlanVersion(const ControlContext& context,
                 const v1::UploadModelRequest::Header& model,
                 Callback<v1::ModelVersion> callback);

// Checks whether the version can be served and rehearses it, then answers with
// it. A version that cannot be served, or that ends the rehearsal's process, is
// refused.
void TryOutVersion(const ControlContext& context,
                   const v1::ModelVersion& version,
                   Callback<v1::ModelVersion> callback);

}  // namespace gpupool::server
