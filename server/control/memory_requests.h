// What clients ask of a device's memory: figures, snapshots, the cache, the
// share that may be used, history and dumps. The device's worker answers.
//
// Thread-safety: any thread; see context.h.
#pragma once

#include <string>

#include "server/control/callback.h"

namespace gpupool::v1 {
class EmptyCacheResponse;
class MemoryStats;
class RecordMemoryHistoryRequest;
class RecordMemoryHistoryResponse;
class SetMemoryFractionRequest;
}  // namespace gpupool::v1
namespace gpupool::worker::v1 {
class DumpMemoryReply;
class MemoryReply;
}  // namespace gpupool::worker::v1
namespace gpupool::scheduler {
struct Device;
}  // namespace gpupool::scheduler

namespace gpupool::server {

struct ControlContext;

void GetMemory(const ControlContext& context, const std::string& device,
               bool with_snapshot, bool with_summary,
               Callback<worker::v1::MemoryReply> callback);
void EmptyCache(const ControlContext& context, const std::string& device,
                Callback<v1::EmptyCacheResponse> callback);
void ResetPeak(const ControlContext& context, const std::string& device,
               Callback<v1::MemoryStats> callback);
void SetMemoryFraction(const ControlContext& context,
                       const v1::SetMemoryFractionRequest& request,
                       Callback<v1::MemoryStats> callback);
// To a worker that has come: what is set for its device.
void SendMemoryFraction(const ControlContext& context,
                        const scheduler::Device& device);
void RecordMemoryHistory(const ControlContext& context,
                         const v1::RecordMemoryHistoryRequest& request,
                         Callback<v1::RecordMemoryHistoryResponse> callback);
void DumpMemory(const ControlContext& context, const std::string& device,
                Callback<worker::v1::DumpMemoryReply> callback);

}  // namespace gpupool::server
