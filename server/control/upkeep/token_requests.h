// Changes of tokens in the store.
//
// Thread-safety: any thread.
#pragma once

#include <cstdint>

#include "absl/time/time.h"
#include "gpupool/v1/auth.pb.h"
#include "server/control/calls/callback.h"
#include "server/control/calls/context.h"

namespace gpupool::server {

// Writes the token. One without an id is new and gets the next one. Answers
// with the row when it is on disk.
void StoreToken(const ControlContext& context, const v1::StoredToken& stored,
                Callback<v1::StoredToken> callback);

// Writes the time of the token's last use, soon. Drops it when control is busy.
void NoteTokenUse(const ControlContext& context, uint64_t id, absl::Time time);

}  // namespace gpupool::server
