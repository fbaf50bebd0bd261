// DeviceService of gpupool.v1; device.proto is its contract.
#pragma once

#include "gpupool/v1/device.grpc.pb.h"
#include "server/api/stream_registry.h"
#include "server/control/control_loop.h"

namespace gpupool::server {

class DeviceService : public v1::DeviceService::CallbackService {
 public:
  // `control` outlives the service. At most `watch_limit` WatchDevices
  // streams.
  DeviceService(ControlLoop* control, size_t watch_limit)
      : control_(control), watches_(watch_limit) {}

  // Ends all WatchDevices streams with Unavailable.
  void StopStreams() { watches_.StopAll(); }

  grpc::ServerUnaryReactor* ListDevices(
      grpc::CallbackServerContext* context,
      const v1::ListDevicesRequest* request,
      v1::ListDevicesResponse* response) override;
  grpc::ServerUnaryReactor* GetMemoryStats(
      grpc::CallbackServerContext* context,
      const v1::GetMemoryStatsRequest* request,
      v1::MemoryStats* response) override;
  grpc::ServerUnaryReactor* GetMemorySummary(
      grpc::CallbackServerContext* context,
      const v1::GetMemorySummaryRequest* request,
      v1::GetMemorySummaryResponse* response) override;
  grpc::ServerUnaryReactor* GetMemorySnapshot(
      grpc::CallbackServerContext* context,
      const v1::GetMemorySnapshotRequest* request,
      v1::MemorySnapshot* response) override;
  grpc::ServerUnaryReactor* EmptyCache(
      grpc::CallbackServerContext* context,
      const v1::EmptyCacheRequest* request,
      v1::EmptyCacheResponse* response) override;
  grpc::ServerUnaryReactor* ResetPeak(grpc::CallbackServerContext* context,
                                      const v1::ResetPeakRequest* request,
                                      v1::MemoryStats* response) override;
  grpc::ServerWriteReactor<v1::ListDevicesResponse>* WatchDevices(
      grpc::CallbackServerContext* context,
      const v1::WatchDevicesRequest* request) override;

 private:
  ControlLoop* const control_;
  StreamRegistry watches_;
};

}  // namespace gpupool::server
