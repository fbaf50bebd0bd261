// The limits of tenants (--tenants) that concern more than one kind of thing:
// stored bytes, and the report of all limits.
//
// Thread-safety: any thread, unless noted.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "gpupool/v1/usage.pb.h"
#include "server/control/calls/callback.h"
#include "server/store/partial_blobs.h"

namespace gpupool::server {

class Transaction;
struct ControlContext;

// Returns OK if an upload of `more` bytes of the tenant may begin. Counts all
// that tenants store, and the uploads that are open or kept, but not those with
// a key in `own`. ResourceExhausted names the tenant, its bytes and its limit.
absl::Status CheckUploadRoom(const ControlContext& context,
                             const std::string& tenant, uint64_t more,
                             const UploadKeys& own);

// Returns OK if a dataset or version of `more` bytes may be added for the
// tenant. Counts the rows of this transaction too, but no uploads. Errors as
// from CheckUploadRoom. Control thread only.
absl::Status CheckStoredRoom(Transaction& transaction,
                             const std::string& tenant, uint64_t more);

// Answers with what tenants have and may have. The request has the tenant that
// its caller may see.
void GetQuota(const ControlContext& context, const v1::GetQuotaRequest& request,
              Callback<v1::GetQuotaResponse> callback);

}  // namespace gpupool::server
