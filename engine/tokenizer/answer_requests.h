// The loop of gpupool-tokenizer that encodes text for the engine.
#pragma once

namespace gpupool::engine {

// Answers the requests of messages.h on this stream socket until the other side
// closes it. Returns the exit code: 0, or 1 after an error.
int AnswerRequests(int socket);

}  // namespace gpupool::engine
