#include "server/api/services/upload_service.h"

#include <google/protobuf/util/time_util.h>

#include <string>

#include "absl/time/time.h"
#include "server/api/rpc/tenant_access.h"
#include "server/api/rpc/unary.h"
#include "server/api/validation/upload_part_check.h"

namespace gpupool::server {
namespace {

using google::protobuf::util::TimeUtil;

v1::Upload UploadOf(const std::string& key, const KeptUpload& kept) {
  v1::Upload upload;
  upload.set_upload_key(key);
  upload.set_sha256(kept.sha256);
  upload.set_total_bytes(kept.total_bytes);
  upload.set_bytes(kept.bytes);
  upload.set_in_use(kept.in_use);
  if (!kept.in_use) {
    *upload.mutable_expire_time() =
        TimeUtil::MicrosecondsToTimestamp(absl::ToUnixMicros(kept.expires));
  }
  return upload;
}

}  // namespace

grpc::ServerUnaryReactor* UploadService::GetUpload(
    grpc::CallbackServerContext* context, const v1::GetUploadRequest* request,
    v1::Upload* response) {
  const absl::Status checked =
      CheckUploadKey("upload_key", request->upload_key());
  if (!checked.ok()) return Reply(context, checked);
  const absl::StatusOr<Identity> caller = tenants_->CallerOf(*context);
  if (!caller.ok()) return Reply(context, caller.status());
  const absl::StatusOr<KeptUpload> kept = blobs_->partials().Find(
      TenantUploadKey(caller->tenant, request->upload_key()));
  if (!kept.ok()) return Reply(context, kept.status());
  *response = UploadOf(request->upload_key(), *kept);
  return Reply(context, absl::OkStatus());
}

}  // namespace gpupool::server
