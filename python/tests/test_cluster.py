"""Ranks that mpirun and Slurm start, and the manifests of examples/cluster/. `make test-cluster` installs what they need."""

import csv
import os
import pathlib
import shutil
import socket
import subprocess

import pytest
from processes import BUILD, ROOT

if os.environ.get("VARVE_TEST_CLUSTER") != "1":
    pytest.skip("trainings by mpirun and Slurm: make test-cluster", allow_module_level=True)

FEW = ["lenet5", "epochs=2", "data.train=300", "data.test=60", "--quiet"]
EXAMPLES = ROOT / "examples/cluster"


def run(command, folder, **variables):
    environment = {**os.environ, "PATH": f"{BUILD}:{os.environ['PATH']}", "VARVE_THREADS": "1", **variables}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout + done.stderr


def losses(folder):
    """Of each epoch of the one run below a folder."""
    [path] = pathlib.Path(folder).glob("**/results.csv")
    with open(path, newline="") as file:
        return [[float(row[name]) for name in ("loss", "val_loss", "accuracy")] for row in csv.DictReader(file)]


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone")
    run(["varve", "train", *FEW], folder)
    return losses(folder)


def near(got, wanted):
    assert len(got) == len(wanted) == 2
    for a, b in zip(got, wanted):
        assert a == pytest.approx(b, abs=2e-3)


@pytest.mark.parametrize("mpi", ["openmpi", "mpich"])
def test_mpirun_trains_as_one_rank(mpi, tmp_path, alone):
    program = shutil.which(f"mpirun.{mpi}")
    if not program or not (BUILD / f"lib/libvarve_{mpi}.so").exists():
        pytest.skip(f"{mpi} is not installed, or the build has no library for it (tools/setup cluster)")
    allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    more = ["--oversubscribe", "--bind-to", "none"] if mpi == "openmpi" else ["-launcher", "fork"]
    said = run([program, *more, "-n", "4", "varve", "train", *FEW[:-1]], tmp_path, **allowed)
    assert "4 ranks" in said and "mpi" in said
    near(losses(tmp_path), alone)


def slurm(*command):
    here = ROOT / "tools/slurm-here"
    if os.geteuid() != 0 or not all(shutil.which(each, path=os.environ["PATH"] + ":/usr/sbin") for each in ("slurmctld", "slurmd", "munged")):
        pytest.skip("a Slurm of one node needs root and its packages (tools/setup cluster)")
    return [str(here), *command]


def test_srun_trains_as_one_rank(tmp_path, alone):
    said = run(slurm("srun", "-n", "2", "varve", "train", *FEW[:-1]), tmp_path)
    assert "2 ranks, gloo" in said
    near(losses(tmp_path), alone)


def test_the_batch_script_trains_and_goes_on_after_a_requeue(tmp_path, alone):
    script = f"sbatch --wait --nodes=1 --ntasks-per-node=2 --cpus-per-task=1 --output=first.log {EXAMPLES}/train.sbatch {' '.join(FEW)}"
    run(slurm("bash", "-c", script), tmp_path)
    near(losses(tmp_path), alone)
    # Job numbers of another Slurm begin anew: the same one finds its folder again, as after a requeue.
    run(slurm("bash", "-c", script.replace("first.log", "second.log").replace("epochs=2", "epochs=3").replace(" --quiet", "")), tmp_path)
    assert len(losses(tmp_path)) == 3 and "resuming" in (tmp_path / "second.log").read_text()


def documents(name):
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    return list(yaml.safe_load_all((EXAMPLES / name).read_text()))


def valid(document):
    checker = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    checker.validate(document, "1.37", strict=True)


def variables(job):
    [container] = job["spec"]["template"]["spec"]["containers"]
    return {each["name"]: each for each in container["env"]}


def test_the_indexed_job_fits_the_schema_and_its_own_names():
    service, job = documents("indexed-job.yaml")
    for document in (service, job):
        valid(document)
    given, pods = variables(job), job["spec"]["template"]["spec"]
    assert int(given["VARVE_RANKS"]["value"]) == job["spec"]["completions"] == job["spec"]["parallelism"]
    host, port = given["VARVE_MEETING"]["value"].split(":")
    assert host == f"{job['metadata']['name']}-0.{service['metadata']['name']}" and int(port) == service["spec"]["ports"][0]["port"]
    assert pods["subdomain"] == service["metadata"]["name"] and service["spec"]["selector"]["job-name"] == job["metadata"]["name"]


def test_the_variables_of_the_indexed_job_start_ranks(tmp_path, alone):
    """As Kubernetes would set them, but for the meeting's host and the folder."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    _, job = documents("indexed-job.yaml")
    [container] = job["spec"]["template"]["spec"]["containers"]
    given = {name: each["value"] for name, each in variables(job).items() if "value" in each and name != "VARVE_DATA"}
    given.update(VARVE_MEETING=f"127.0.0.1:{port}", VARVE_RANKS="2", VARVE_JOB_KEY="secret", VARVE_THREADS="1",
                 PATH=f"{BUILD}:{os.environ['PATH']}")  # fmt: skip
    script = container["args"][0].replace("resnet20 data=cifar10", " ".join(FEW))
    pods = [subprocess.Popen([*container["command"], script], cwd=tmp_path, env={**os.environ, **given, "VARVE_RANK": str(rank)}) for rank in (1, 0)]
    assert [pod.wait(120) for pod in pods] == [0, 0]
    near(losses(tmp_path), alone)


def test_the_mpi_job_has_what_the_operator_asks_for():
    [job] = documents("mpijob.yaml")
    assert (job["apiVersion"], job["kind"]) == ("kubeflow.org/v2beta1", "MPIJob")
    assert set(job["spec"]) <= {"slotsPerWorker", "runLauncherAsWorker", "runPolicy", "mpiReplicaSpecs", "sshAuthMountPath", "mpiImplementation"}
    assert set(job["spec"]["runPolicy"]) <= {"cleanPodPolicy", "ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit", "suspend"}
    replicas = job["spec"]["mpiReplicaSpecs"]
    assert set(replicas) == {"Launcher", "Worker"} and replicas["Launcher"]["replicas"] == 1
    for replica in replicas.values():
        assert set(replica) == {"replicas", "restartPolicy", "template"} and replica["restartPolicy"] in ("Never", "OnFailure")
        template = {**replica["template"], "spec": {"restartPolicy": "Never", **replica["template"]["spec"]}}
        valid({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "checked"}, "spec": {"template": template}})
    ranks = job["spec"]["slotsPerWorker"] * replicas["Worker"]["replicas"]
    assert f"mpirun -n {ranks} " in replicas["Launcher"]["template"]["spec"]["containers"][0]["args"][0]
