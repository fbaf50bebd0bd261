// Implements DeviceService of gpupool.v1; device.proto is its contract.
#pragma once

#include <cstddef>
#include <memory>

namespace grpc {
class Service;
}  // namespace grpc

namespace gpupool::server {

class BlobStore;
class TenantAccess;
struct ControlContext;

// An interface of the service. The methods are those of device.proto, in
// device_service.cc alone.
class DeviceService {
 public:
  virtual ~DeviceService() = default;

  virtual grpc::Service& service() = 0;
  // Ends all streams with Unavailable.
  virtual void StopStreams() = 0;
};

// The first three must outlive the service. At most `watch_limit`
// WatchDevices streams may be open at a time.
std::unique_ptr<DeviceService> MakeDeviceService(const ControlContext* control,
                                                 const BlobStore* blobs,
                                                 const TenantAccess* tenants,
                                                 size_t watch_limit);

}  // namespace gpupool::server
