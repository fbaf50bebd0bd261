// The loop of gpupool-tokenizer that encodes text for the engine.
#pragma once

namespace gpupool::engine {

// Answers the requests of messages.h on this stream socket until the other side
// closes it. Returns the exit code: 0, or 1 after an error.
int AnswerRequests(int socket);

// Ends this process with exit code 1 as soon as the other side closes the
// socket, also while a request is worked on: a sandbox may forbid the other
// side to kill it. Starts a thread. Returns false if the system refuses that.
bool EndWithOtherSide(int socket);

}  // namespace gpupool::engine
