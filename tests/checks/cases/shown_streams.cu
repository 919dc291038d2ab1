// Two kernels on two streams: what would order them is an event, or one stream.
// wrong: data-race here
// right:
// shows: which thread (
// shows: of kernel case_shown_streams::set on stream 
// shows: nothing orders the two: use one stream, or `cudaEventRecord` and `cudaStreamWaitEvent`
__global__ void set(int* x, int v) {
  x[threadIdx.x] = v + threadIdx.x;  // here
}
void run(bool wrong) {
  int* x = device_array(32);
  cudaStream_t a, b;
  cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
  cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
  set<<<1, 32, 0, a>>>(x, 1);
  set<<<1, 32, 0, wrong ? b : a>>>(x, 2);
  finish(x);
}
