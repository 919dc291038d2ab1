// Blocks that add to one place: no barrier helps, an atomic does.
// wrong: data-race here
// right:
// shows: error: data-race: 
// shows: of block (
// shows: use an atomic, or let one block do it
__global__ void count(int* x, bool atomically) {
  if (threadIdx.x != 0) return;
  if (atomically)
    atomicAdd(x, 1);
  else
    x[0] = blockIdx.x;  // here
}
void run(bool wrong) {
  int* x = device_array(1);
  count<<<4, 32>>>(x, !wrong);
  finish(x);
}
