// Memory that is never freed.
// wrong: leak
// right:
void run(bool wrong) {
  int* x = device_array(64);
  if (!wrong) finish(x);
}
