// DeviceService of gpupool.v1; device.proto is its contract.
#pragma once

#include "gpupool/v1/device.grpc.pb.h"
#include "server/api/stream_registry.h"
#include "server/store/blob_store.h"

namespace gpupool::server {

struct ControlContext;

class DeviceService : public v1::DeviceService::CallbackService {
 public:
  // Both outlive the service. At most `watch_limit` WatchDevices streams.
  DeviceService(const ControlContext* control, const BlobStore* blobs,
                size_t watch_limit)
      : control_(control), blobs_(blobs), watches_(watch_limit) {}

  // Ends all streams with Unavailable.
  void StopStreams() {
    watches_.StopAll();
    dumps_.StopAll();
  }

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
  grpc::ServerUnaryReactor* DrainDevice(grpc::CallbackServerContext* context,
                                        const v1::DrainDeviceRequest* request,
                                        v1::Device* response) override;
  grpc::ServerUnaryReactor* ResumeDevice(grpc::CallbackServerContext* context,
                                         const v1::ResumeDeviceRequest* request,
                                         v1::Device* response) override;
  grpc::ServerUnaryReactor* SetMemoryFraction(
      grpc::CallbackServerContext* context,
      const v1::SetMemoryFractionRequest* request,
      v1::MemoryStats* response) override;
  grpc::ServerUnaryReactor* RecordMemoryHistory(
      grpc::CallbackServerContext* context,
      const v1::RecordMemoryHistoryRequest* request,
      v1::RecordMemoryHistoryResponse* response) override;
  grpc::ServerWriteReactor<v1::DumpMemoryResponse>* DumpMemory(
      grpc::CallbackServerContext* context,
      const v1::DumpMemoryRequest* request) override;
  grpc::ServerWriteReactor<v1::ListDevicesResponse>* WatchDevices(
      grpc::CallbackServerContext* context,
      const v1::WatchDevicesRequest* request) override;

 private:
  // A dump holds a file that may be large.
  static constexpr size_t kMaxDumps = 16;

  const ControlContext* const control_;
  const BlobStore* const blobs_;
  StreamRegistry watches_;
  StreamRegistry dumps_{kMaxDumps};
};

}  // namespace gpupool::server
