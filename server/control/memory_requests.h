// What clients ask of a device's memory: figures, snapshots, the cache, the
// share that may be used, history and dumps. The device's worker answers.
//
// Thread-safety: any thread; see context.h.
#pragma once

#include <string>

#include "server/control/context.h"

namespace gpupool::server {

void GetMemory(const ControlContext& context, const std::string& device,
               bool with_snapshot, bool with_summary,
               ControlLoop::Callback<worker::v1::MemoryReply> callback);
void EmptyCache(const ControlContext& context, const std::string& device,
                ControlLoop::Callback<v1::EmptyCacheResponse> callback);
void ResetPeak(const ControlContext& context, const std::string& device,
               ControlLoop::Callback<v1::MemoryStats> callback);
void SetMemoryFraction(const ControlContext& context,
                       const v1::SetMemoryFractionRequest& request,
                       ControlLoop::Callback<v1::MemoryStats> callback);
// To a worker that has come: what is set for its device.
void SendMemoryFraction(const ControlContext& context,
                        const scheduler::Device& device);
void RecordMemoryHistory(
    const ControlContext& context,
    const v1::RecordMemoryHistoryRequest& request,
    ControlLoop::Callback<v1::RecordMemoryHistoryResponse> callback);
void DumpMemory(const ControlContext& context, const std::string& device,
                ControlLoop::Callback<worker::v1::DumpMemoryReply> callback);

}  // namespace gpupool::server
