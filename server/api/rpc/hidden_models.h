// Private to server/api: keeps the names of models that the caller may not use
// out of answers about devices.
//
// Thread-safety: any thread; no state.
#pragma once

#include <google/protobuf/message.h>

#include "gpupool/v1/device.pb.h"
#include "server/api/rpc/tenant_access.h"

namespace gpupool::server {

// Replaces the names of models that the caller may not use in all texts of the
// message that name a version as owners of memory do, "model NAME/VERSION".
void HideModels(const TenantAccess& access, const Identity& caller,
                google::protobuf::Message* message);

// Does the same for a device, and leaves out its versions of such models.
void HideModelsOf(const TenantAccess& access, const Identity& caller,
                  v1::Device* device);

}  // namespace gpupool::server
